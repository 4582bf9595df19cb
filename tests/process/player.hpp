// Who plays the part of an actor.
#pragma once

namespace ddpcache::test {

// Carries out the commands of standard input until it ends.
int play();

}  // namespace ddpcache::test
