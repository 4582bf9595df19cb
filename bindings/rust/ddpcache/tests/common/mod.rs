//! What the tests share. Each test file uses a part of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ddpcache::{Cache, CacheBuilder, Error, Filling};

/// Long enough for anything on a busy machine.
pub const WAIT: Duration = Duration::from_secs(60);

/// A name that no other test, in this or another process, has.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-rust-{what}-{}-{number}", std::process::id())
}

pub fn builder(name: &str) -> CacheBuilder {
    Cache::builder(name)
        .length(100)
        .capacity_bytes(4 << 20)
        .sample_bytes_max(64 << 10)
}

pub fn open(what: &str) -> Cache {
    builder(&unique(what)).open().unwrap()
}

/// A loader of 16 bytes that say which sample they are.
pub fn decode(filling: &mut Filling<'_>) -> Result<(), Error> {
    let index = filling.index() as u8;
    if let Some(bytes) = filling.allocate::<u8>(&[16])? {
        bytes.fill(index);
    }
    Ok(())
}

/// A process that runs the ignored test `role` of this test program, with its words in ROLE_WORDS,
/// and is killed at the latest when it is dropped.
pub struct Role {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Role {
    pub fn start(role: &str, words: &[&str]) -> Role {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                role,
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("ROLE_WORDS", words.join(" "))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Role {
            child,
            input,
            output,
        }
    }

    /// The words that the role says next with `say`.
    pub fn hear(&mut self) -> String {
        for line in self.output.by_ref().lines() {
            let line = line.unwrap();
            // The test harness may have begun the line.
            if let Some((_, said)) = line.split_once("role: ") {
                return said.to_owned();
            }
        }
        panic!("the role ended without saying a word");
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends its input, and waits for it to end by itself.
    pub fn finish(mut self) {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The words of the role that this process plays; `None` where it is a test run of its own.
pub fn role_words() -> Option<Vec<String>> {
    let words = std::env::var("ROLE_WORDS").ok()?;
    Some(words.split(' ').map(str::to_owned).collect())
}

pub fn say(words: &str) {
    println!("\nrole: {words}");
    std::io::stdout().flush().unwrap();
}

/// Waits for a line, or the end, of the input.
pub fn listen() -> Option<String> {
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line).unwrap();
    (bytes > 0).then(|| line.trim_end().to_owned())
}
