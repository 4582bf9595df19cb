//! Finds the installed C library by pkg-config and tells cargo how to link it.

use std::env;
use std::fmt::Write;
use std::path::Path;
use std::process::{exit, Command};

const VERSION_MIN: &str = "0.1.0";

/// What to do where the library is not found.
const REMEDY: &str = "\
Install ddpcache (cmake --install BUILD --prefix PREFIX), then set
    PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
to the folder that holds ddpcache.pc. PKG_CONFIG names the pkg-config program where it is not `pkg-config`.";

fn stop(message: &str) -> ! {
    eprintln!("error: {message}");
    exit(1);
}

fn pkg_config(arguments: &[&str]) -> String {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = match Command::new(&program).args(arguments).output() {
        Ok(output) => output,
        Err(reason) => stop(&format!(
            "`{}` cannot be run: {reason}. Install pkg-config (Debian: apt-get install pkg-config).\n{REMEDY}",
            program.to_string_lossy()
        )),
    };
    if !output.status.success() {
        let path = env::var("PKG_CONFIG_PATH").unwrap_or_else(|_| "not set".into());
        stop(&format!(
            "pkg-config does not find ddpcache {VERSION_MIN} or later (PKG_CONFIG_PATH is {path}):\n{}\n{REMEDY}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn main() {
    for name in [
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
        "PKG_CONFIG_LIBDIR",
        "PKG_CONFIG_SYSROOT_DIR",
    ] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    // Documentation is built without the library.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    pkg_config(&[
        "--print-errors",
        "--exists",
        &format!("ddpcache >= {VERSION_MIN}"),
    ]);
    let folder = pkg_config(&["--variable=libdir", "ddpcache"]);
    let dynamic = env::var_os("CARGO_FEATURE_DYNAMIC").is_some();
    let library = if dynamic {
        "libddpcache.so"
    } else {
        "libddpcache.a"
    };
    let file = Path::new(&folder).join(library);
    if !file.exists() {
        let other = if dynamic { "without" } else { "with" };
        stop(&format!(
            "{} does not exist. Install it, or build {other} the feature `dynamic`.",
            file.display()
        ));
    }
    // A library that is installed anew is linked anew.
    println!("cargo::rerun-if-changed={}", file.display());
    println!("cargo::rustc-link-search=native={folder}");
    // For build scripts of packages that depend on this one: DEP_DDPCACHE_LIBDIR.
    println!("cargo::metadata=libdir={folder}");
    print!(
        "{}",
        if dynamic {
            link_dynamic()
        } else {
            link_static()
        }
    );
}

fn link_dynamic() -> String {
    "cargo::rustc-link-lib=dylib=ddpcache\n".to_owned()
}

/// The archive, and what it needs itself: the C++ runtime.
fn link_static() -> String {
    let mut lines = String::new();
    for flag in pkg_config(&["--static", "--libs", "ddpcache"]).split_whitespace() {
        let line = match flag {
            "-lddpcache" => "rustc-link-lib=static=ddpcache".to_owned(),
            "-pthread" => "rustc-link-lib=pthread".to_owned(),
            _ if flag.starts_with("-l") => format!("rustc-link-lib={}", &flag[2..]),
            _ if flag.starts_with("-L") => format!("rustc-link-search=native={}", &flag[2..]),
            _ => stop(&format!(
                "pkg-config says `{flag}` of ddpcache, which is not understood here"
            )),
        };
        writeln!(lines, "cargo::{line}").expect("memory");
    }
    lines
}
