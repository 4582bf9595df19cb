// The actor's side: what each command of actors.hpp does.
#include "player.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "actors.hpp"
#include "ddpcache/keys.h"
#include "ddpcache/saving.h"
#include "locks.hpp"

namespace ddpcache::test {
namespace {

constexpr unsigned kWatchdogSeconds = 100;

class Player {
 public:
  std::string answer(const std::string &line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "in-child") {
      std::string rest;
      std::getline(words, rest);
      return in_child(rest);
    }
    static const std::map<std::string, void (Player::*)(std::istream &)> kVerbs = {
        {"open", &Player::open},
        {"attach", &Player::attach},
        {"attach-read-only", &Player::attach_read_only},
        {"bind-read-only", &Player::bind_read_only},
        {"in", &Player::in_directory},
        {"reopen", &Player::reopen},
        {"close", &Player::close},
        {"close-old", &Player::close_old},
        {"put", &Player::put_sample},
        {"load", &Player::load},
        {"get", &Player::get},
        {"look", &Player::look},
        {"view", &Player::view},
        {"view-right", &Player::view_right},
        {"views", &Player::views},
        {"release", &Player::release},
        {"remove", &Player::remove},
        {"clear", &Player::clear},
        {"intern", &Player::intern},
        {"lookup", &Player::lookup},
        {"begin", &Player::begin},
        {"allocate", &Player::allocate},
        {"write", &Player::write},
        {"commit", &Player::commit},
        {"abort", &Player::abort},
        {"background", &Player::background},
        {"save", &Player::save},
        {"restore", &Player::restore},
        {"files", &Player::files},
        {"fork", &Player::fork_on},
        {"raw-fork", &Player::raw_fork},
        {"close-descriptors", &Player::close_descriptors},
        {"crowd", &Player::crowd},
        {"crowd-unharmed", &Player::crowd_unharmed},
        {"no-descriptors", &Player::no_descriptors},
        {"limit-file-size", &Player::limit_file_size},
        {"exec", &Player::exec_again},
        {"hog", &Player::hog},
        {"unhog", &Player::unhog},
        {"read-file", &Player::read_file},
        {"fake-group", &Player::fake_group},
        {"hold-lock", &Player::hold_lock}};
    answer_.str("");
    const auto found = kVerbs.find(verb);
    if (found == kVerbs.end()) return "no such command: " + line;
    (this->*found->second)(words);
    return answer_.str();
  }

 private:
  void said(int32_t status, const dc_error &error) {
    answer_ << status;
    if (status < 0) answer_ << ' ' << error.message;
  }

  void open(std::istream &words) {
    std::string name;
    dc_cache_options options;
    dc_cache_options_init(&options, sizeof options);
    words >> name >> options.length >> options.capacity_bytes >> options.sample_bytes >> options.clients_max >>
        options.partial >> options.droppable;
    if (!(words >> options.keep)) options.keep = 0;
    dc_error error = {};
    said(dc_cache_open(name.c_str(), directory(), "test", &options, &cache_, &error), error);
  }
  void attach(std::istream &words) {
    std::string name;
    words >> name;
    dc_error error = {};
    said(dc_cache_attach(name.c_str(), directory(), 10 * kSecond, &cache_, &error), error);
  }
  void attach_read_only(std::istream &words) {
    std::string name;
    words >> name;
    dc_error error = {};
    said(dc_cache_attach_read_only(name.c_str(), directory(), 10 * kSecond, &cache_, &error), error);
  }
  void bind_read_only(std::istream &words) {
    std::string where;
    words >> where;
    const bool bound = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount("/dev/shm", where.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
                       mount(nullptr, where.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
    answer_ << (bound ? 0 : errno);
  }
  const char *directory() const { return directory_.empty() ? nullptr : directory_.c_str(); }
  void in_directory(std::istream &words) {
    words >> directory_;
    answer_ << 0;
  }
  void reopen(std::istream &words) {
    old_ = cache_;
    attach(words);
  }
  void close(std::istream &) { answer_ << dc_cache_close(std::exchange(cache_, nullptr)); }
  void close_old(std::istream &) { answer_ << dc_cache_close(std::exchange(old_, nullptr)); }

  void put_sample(std::istream &words) {
    int64_t index = 0;
    uint64_t bytes = 0;
    words >> index >> bytes;
    answer_ << put(cache_, index, bytes);
  }
  void load(std::istream &words) {
    int64_t index = 0, timeout_ms = 0;
    Errand errand;
    words >> index >> errand.bytes >> timeout_ms;
    dc_view loaded = {};
    const int32_t status = dc_cache_load(cache_, index, load_pattern, &errand, timeout_ms * kMillisecond, &loaded);
    answer_ << status << ' ' << errand.runs;
    if (status == DC_OK && !has_pattern(loaded.data, loaded.bytes, index)) answer_ << " WRONG";
    dc_cache_view_release(&loaded);
  }
  void get(std::istream &words) {
    int64_t index = 0;
    uint64_t bytes = 0;
    words >> index >> bytes;
    answer_ << static_cast<bool>(holds(cache_, index, bytes));
  }
  void look(std::istream &words) {
    int64_t index = 0;
    uint64_t bytes = 0;
    words >> index >> bytes;
    dc_view seen = {};
    const int32_t status = dc_cache_view(cache_, index, &seen);
    const bool right = status == DC_OK && seen.bytes == bytes && has_pattern(seen.data, bytes, index);
    answer_ << (status == DC_MISS ? "miss" : right ? "right" : "WRONG");
    dc_cache_view_release(&seen);
  }
  void view(std::istream &words) {
    int64_t index = 0;
    words >> index;
    answer_ << dc_cache_view(cache_, index, &view_);
  }
  void views(std::istream &words) {
    int64_t index = 0;
    size_t count = 0;
    words >> index >> count;
    while (views_.size() < count) {
      dc_view one;
      if (dc_cache_view(cache_, index, &one) != DC_OK) break;
      views_.push_back(one);
    }
    answer_ << views_.size();
  }
  void release(std::istream &) {
    dc_cache_view_release(&view_);
    for (dc_view &one : views_) dc_cache_view_release(&one);
    views_.clear();
    answer_ << 0;
  }
  void remove(std::istream &words) {
    int64_t index = 0;
    words >> index;
    answer_ << dc_cache_remove(cache_, index);
  }
  void clear(std::istream &) {
    int64_t removed = 0;
    answer_ << dc_cache_clear(cache_, &removed) << ' ' << removed;
  }
  void view_right(std::istream &words) {
    uint64_t bytes = 0;
    words >> bytes;
    answer_ << (view_.bytes == bytes && has_pattern(view_.data, bytes, view_.index));
  }

  void key(std::istream &words, decltype(dc_cache_intern) *call) {
    std::string key;
    int64_t index = -1;
    words >> key;
    answer_ << call(cache_, reinterpret_cast<const uint8_t *>(key.data()), key.size(), &index) << ' ' << index;
  }
  void intern(std::istream &words) { key(words, dc_cache_intern); }
  void lookup(std::istream &words) { key(words, dc_cache_lookup); }

  void begin(std::istream &words) {
    int64_t timeout_ms = 0;
    words >> index_ >> timeout_ms;
    answer_ << dc_cache_fill_begin(cache_, index_, timeout_ms * kMillisecond, &fill_);
  }
  void allocate(std::istream &words) {
    uint64_t bytes = 0;
    words >> bytes;
    array_ = byte_array(bytes);
    answer_ << dc_cache_fill_allocate(fill_, &array_, 1, nullptr, nullptr);
  }
  // Writes a part of the sample, in whole words.
  void write(std::istream &words) {
    uint64_t from = 0, to = 0;
    words >> from >> to;
    std::vector<uint8_t> whole(array_.bytes);
    write_pattern(whole.data(), array_.bytes, index_);
    std::memcpy(array_.data + from, whole.data() + from, to - from);
    answer_ << 0;
  }
  void commit(std::istream &) { answer_ << dc_cache_fill_commit(fill_); }
  void abort(std::istream &) { answer_ << dc_cache_fill_abort(fill_); }
  void background(std::istream &words) {
    int64_t index = 0;
    words >> index;
    std::atomic<int32_t> status{INT32_MAX};
    std::thread([&status, cache = cache_, index] {
      dc_fill *fill = nullptr;
      status = dc_cache_fill_begin(cache, index, 0, &fill);
      while (true) pause();
    }).detach();
    while (status == INT32_MAX) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    answer_ << status;
  }

  void save(std::istream &words) {
    std::string path;
    words >> path;
    dc_error error = {};
    int64_t saved = -1;
    said(dc_cache_save(cache_, path.c_str(), nullptr, nullptr, &saved, &error), error);
    if (saved >= 0) answer_ << ' ' << saved;
  }
  void restore(std::istream &words) {
    std::string path, name;
    int64_t timeout_ms = 0;
    bool forks = false;
    words >> path >> name >> timeout_ms >> forks;
    dc_cache_options options;
    dc_cache_options_init(&options, sizeof options);
    options.timeout_ns = timeout_ms * kMillisecond;
    const dc_progress fork_once = [](uint64_t done, uint64_t, void *user) -> int32_t {
      bool *wanted = static_cast<bool *>(user);
      if (done == 0 || !std::exchange(*wanted, false)) return 0;
      if (fork() == 0) {
        // It ends with the test, which then closes the commands' other end.
        alarm(kWatchdogSeconds);
        char none;
        while (::read(0, &none, 1) > 0) {
        }
        _exit(0);
      }
      return 0;
    };
    dc_error error = {};
    said(dc_cache_restore(path.c_str(), name.c_str(), nullptr, nullptr, &options, forks ? fork_once : nullptr, &forks,
                          &cache_, &error),
         error);
    if (cache_) answer_ << ' ' << info_of(cache_).created;
  }
  void files(std::istream &words) {
    std::string directory;
    words >> directory;
    answer_ << std::distance(std::filesystem::directory_iterator(directory), {});
  }

  std::string in_child(const std::string &command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      // Where no descriptor is left, the exit status has to do.
      const pid_t child = fork();
      if (child == 0) _exit(std::abs(std::atoi(answer(command).c_str())));
      int status = 0;
      waitpid(child, &status, 0);
      return WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status)) : "killed";
    }
    const pid_t child = fork();
    if (child == 0) {
      alarm(kWatchdogSeconds);  // a fork clears it
      const std::string said_by_child = answer(command);
      if (::write(ends[1], said_by_child.data(), said_by_child.size()) < 0) _exit(1);
      _exit(0);
    }
    ::close(ends[1]);
    char text[2000];
    std::string all;
    for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;) all.append(text, static_cast<size_t>(got));
    ::close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? "killed by " + std::to_string(WTERMSIG(status)) : all;
  }

  void go_on_in(pid_t child) {
    if (child > 0) {
      while (true) pause();
    }
    alarm(kWatchdogSeconds);
    answer_ << getpid();
  }
  void fork_on(std::istream &) { go_on_in(fork()); }
  // As a program does that makes its processes by system calls: no fork handler runs.
  void raw_fork(std::istream &) {
    go_on_in(static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)));
  }

  void close_descriptors(std::istream &) { answer_ << syscall(SYS_close_range, 3u, ~0u, 0u); }
  void crowd(std::istream &words) {
    int count = 0;
    for (words >> count; static_cast<int>(crowd_.size()) < count;) {
      const int fd = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
      if (fd < 0) break;
      crowd_.push_back(fd);
    }
    answer_ << crowd_.size();
  }
  void crowd_unharmed(std::istream &) {
    bool unharmed = true;
    for (const int fd : crowd_) {
      struct stat properties;
      unharmed &= fstat(fd, &properties) == 0 && properties.st_size == 0 && properties.st_blocks == 0;
      const int again = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
      for (uint32_t client = 0; client < 8; ++client)
        unharmed &= probe(again, client_byte(client)) == ProbeResult::free;
      unharmed &= probe(again, kAttachByte) == ProbeResult::free;
      ::close(again);
    }
    answer_ << unharmed;
  }
  void no_descriptors(std::istream &) {
    // The lowest free number is the first that may not be used any more.
    const int lowest = dup(0);
    ::close(lowest);
    const rlimit limit = {static_cast<rlim_t>(lowest), static_cast<rlim_t>(lowest)};
    answer_ << setrlimit(RLIMIT_NOFILE, &limit);
  }

  void limit_file_size(std::istream &words) {
    rlimit limit = {};
    words >> limit.rlim_cur;
    limit.rlim_max = limit.rlim_cur;
    answer_ << setrlimit(RLIMIT_FSIZE, &limit);
  }
  // The same process, with nothing left of what it was.
  void exec_again(std::istream &) {
    execl("/proc/self/exe", "actor", "--actor", "0", "0", static_cast<char *>(nullptr));
    answer_ << -1;
  }

  std::string hog_path() const { return (directory_.empty() ? "/dev/shm" : directory_) + "/hog"; }
  void hog(std::istream &) {
    const int fd = ::open(hog_path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    for (off_t at = 0; fallocate(fd, 0, at, 4096) == 0; at += 4096) {
    }
    ::close(fd);
    answer_ << 0;
  }
  void unhog(std::istream &) { answer_ << unlink(hog_path().c_str()); }
  void read_file(std::istream &words) {
    std::string path;
    words >> path;
    std::ifstream file(path);
    std::vector<char> text(1 << 20);
    uint64_t bytes = 0;
    while (file.read(text.data(), static_cast<std::streamsize>(text.size())) || file.gcount() > 0) {
      bytes += static_cast<uint64_t>(file.gcount());
    }
    answer_ << bytes;
  }
  // What the kernel says of this process's memory group, in a mount namespace of its own.
  void fake_group(std::istream &words) {
    std::string folder, limit, usage, inactive;
    int version = 0;
    words >> folder >> version >> limit >> usage >> inactive;
    const auto write = [&folder](const std::string &name, const std::string &text) {
      std::ofstream(folder + "/" + name) << text << "\n";
    };
    write(version == 1 ? "memory.limit_in_bytes" : "memory.max", limit);
    write(version == 1 ? "memory.usage_in_bytes" : "memory.current", usage);
    write("memory.stat", (version == 1 ? "total_inactive_file " : "inactive_file ") + inactive);
    const std::string kind = version == 1 ? "cgroup cgroup rw,memory" : "cgroup2 cgroup2 rw";
    write("mountinfo", "31 22 0:27 / " + folder + " rw - " + kind);
    write("cgroup", version == 1 ? "4:memory:/" : "0::/");
    bool mounted = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    for (const std::string name : {"mountinfo", "cgroup"}) {
      const std::string over = "/proc/" + std::to_string(getpid()) + "/" + name;
      mounted = mounted && mount((folder + "/" + name).c_str(), over.c_str(), nullptr, MS_BIND, nullptr) == 0;
    }
    answer_ << (mounted ? 0 : errno);
  }
  void hold_lock(std::istream &words) {
    std::string directory;
    words >> directory;
    const int fd =
        ::open((directory + "/ddpcache." + std::to_string(geteuid())).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    answer_ << flock(fd, LOCK_EX);
  }

  std::ostringstream answer_;
  std::string directory_;
  dc_cache *cache_ = nullptr;
  dc_cache *old_ = nullptr;
  dc_fill *fill_ = nullptr;
  int64_t index_ = 0;
  dc_array array_ = {};
  dc_view view_ = {};
  std::vector<dc_view> views_;
  std::vector<int> crowd_;
};

}  // namespace

int play() {
  alarm(kWatchdogSeconds);
  Player player;
  for (std::string line; std::getline(std::cin, line);) std::cout << player.answer(line) << std::endl;
  return 0;
}

}  // namespace ddpcache::test
