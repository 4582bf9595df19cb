// What may be believed of a cache on a disk.
//
// While a machine runs, its page cache is the file, and a cache on a disk is as sound as one in memory whoever is
// killed. When the machine stops, what is left is what had reached the disk: any page, each as it was at some moment.
// So the control line says which boot had the file open last, and whether it was closed: everything synced, and then
// said so. The first client that comes to an unattached file reads that, under the name lock:
//
//   boot         closed   then
//   this one     -        all is as it was left
//   another      yes      all is on the disk; what belongs to the old boot's processes is put away
//   another      no       recovery: what the words say is believed only where it fits together, and what they lead to
//                         only once its checksum has been seen to be right, at its first use (READY, unverified; see
//                         words.hpp)
//
// The states of `closure`, every change a CAS or made where nobody else can be at it:
//
//   from             to         who                                                        when
//   closed, closing  reopening  a client, with the attach byte locked, before its first    -
//                               change of anything (revive, at its start, likewise)
//   reopening        open       the same                                                   its page is synced
//   any but closed   closing    the last client, with the name lock                        -
//   closing          closed     the same                                                   the attach byte was free
//                                                                                          after it was closing, and
//                                                                                          all is synced
//
// Children of a fork attach without the name lock. One that locks the attach byte before the closer probes it, is seen;
// one that locks it later reads `closing` or `closed` afterwards and takes it back, so that `closed` never stands on
// the disk while somebody changes the file. A kill at any point leaves something else than `closed`, which costs time
// only.
//
// What recovery relies on is that nothing it cannot check is ever believed: a record's checksum is that of an index, so
// that bytes of another sample which reached the disk at an old place are not taken for this one's.
#pragma once

#include "segment.hpp"

namespace ddpcache {

// For a file that is being made, before it has a name: it is this boot's, and open. On a disk it is synced, since a
// name could else reach the disk before what it leads to.
Status begin_life(const Segment &segment, int fd, const std::string &subject);

// Makes a file that nobody is attached to ready for its first client. With the name lock held. Where the mapping cannot
// be written, a file that needs recovery is DC_ERROR_STATE: so nobody is ever attached to one, and whoever finds a
// client attached finds a file that may be trusted.
Status revive(const Segment &segment, int fd, const std::string &subject);

// Takes back that the file is closed, on the disk too. With the attach byte locked, before anything is changed.
Status reopen_closed(const Segment &segment);

// Says that the file is closed, where that is so: with the name lock held and after this process has left the attach
// byte. Where anything fails the file is merely not closed.
void close_file(const Segment &segment, int fd);

// Whether the words of the control line that this is about can be what they are, in a file that is in use.
bool boot_is_possible(const Segment &segment);
bool closure_is_possible(const Segment &segment);

// Writes the control line to the disk, and waits for that.
Status sync_control(const Segment &segment);

}  // namespace ddpcache
