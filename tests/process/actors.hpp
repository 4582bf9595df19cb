// Processes that play clients. An actor is this very program, started anew by exec; it reads one command a line from
// its standard input, carries it out on its cache and answers with one line: a status, then perhaps more.
//
//   open NAME LENGTH CAPACITY SAMPLE_BYTES CLIENTS_MAX PARTIAL DROPPABLE [KEEP]           STATUS MESSAGE
//   attach NAME                                                                           STATUS MESSAGE
//   in DIRECTORY        where open and attach look from now on                            0
//   attach-read-only NAME                                                                 STATUS MESSAGE
//   bind-read-only DIRECTORY  /dev/shm there, in a mount namespace of its own             0
//   reopen NAME         attach again, with the old handle left open                       STATUS
//   close | close-old                                                                     STATUS
//   put INDEX BYTES     store a sample                                                    STATUS
//   load INDEX BYTES TIMEOUT_MS                                                           STATUS RUNS
//   get INDEX BYTES     whether the sample is there and right                             0 or 1
//   look INDEX BYTES                                                                      right, miss or WRONG
//   view INDEX          take a view and keep it; view-right BYTES: whether it reads right STATUS; 0 or 1
//   views INDEX COUNT   take many views of it                                             how many
//   release             end all views                                                     0
//   remove INDEX | clear                                                                  STATUS; STATUS REMOVED
//   intern KEY | lookup KEY                                                               STATUS INDEX
//   begin INDEX TIMEOUT_MS | allocate BYTES | write FROM TO | commit | abort              STATUS
//   background INDEX    begin a fill on another thread, which keeps it open               STATUS
//   save PATH                                                                             STATUS MESSAGE or SAVED
//   restore PATH NAME TIMEOUT_MS FORKS                                                    STATUS MESSAGE or CREATED
//                       with FORKS, a child that lives on is forked in the middle
//   files DIRECTORY     names there                                                       how many
//   in-child COMMAND    fork, let the child carry out a command and leave                 the child's answer
//   fork | raw-fork     the child goes on with the commands, the parent only waits        pid of the child
//   close-descriptors   all but the standard ones                                         0
//   crowd COUNT         open unrelated files, so that they take free descriptor numbers   how many
//   crowd-unharmed      whether these files are open, empty and unlocked                  0 or 1
//   no-descriptors      leave no descriptor to be opened                                  0
//   limit-file-size BYTES                                                                 0
//   exec                become a new actor in the same process                            nothing
//   hog | unhog         fill /dev/shm, or the directory, with another file, remove it     0
//   read-file PATH                                                                        how many bytes
//   fake-group FOLDER VERSION LIMIT USAGE INACTIVE                                        0
//                       what its memory cgroup, of version 1 or 2, says of itself
//   hold-lock DIRECTORY take the user's lock file there                                   0
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {

// What an actor is started with.
struct Stage {
  std::string fault;           // POINT:ACTION[:NTH]
  bool pid_namespace = false;  // as pid 1 of a namespace of its own
  int shm_megabytes = 0;       // with a /dev/shm of its own, of this size
  pid_t pid = 0;               // as the process of this number, where may_choose_pids()
};

class Actor {
 public:
  explicit Actor(const Stage &stage = {});
  Actor(const Actor &) = delete;
  Actor &operator=(const Actor &) = delete;
  ~Actor();  // kills it

  // Sends a command and waits for its answer; "" where the actor died instead.
  std::string ask(const std::string &command);
  void tell(const std::string &command);
  std::string hear();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Kills it and takes its exit status, so that it is no zombie.
  void kill_and_reap();
  // Waits until a fault or a signal has ended it, and takes its exit status: the signal, or 0.
  int reap();
  // Waits until it is stopped by its fault or by SIGSTOP.
  void await_stop();
  // Waits until it is dead and leaves it a zombie.
  void await_zombie();

 private:
  pid_t pid_ = -1;
  int commands_ = -1;
  int answers_ = -1;
  std::string heard_;
};

// Whether this user may make mount and PID namespaces, and choose the number of a new process.
bool may_unshare();
bool may_choose_pids();

// Stores samples of 100,000 bytes beside a program that takes the rest of the place: `stored` of them, 0, 1 and so on,
// until the cache is full. All of them go on hitting.
void fill_beside_a_hog(Actor *actor, int64_t *stored);

// The place is free again: a sample is stored as soon as free space is looked at again, after a second.
void expect_growth_without_the_hog(Actor *actor);

}  // namespace ddpcache::test
