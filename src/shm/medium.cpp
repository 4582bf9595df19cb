#include "medium.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace ddpcache {
namespace {

// Types as statfs(2) gives them. <linux/magic.h> has not all of them, and an old one has fewer.
constexpr uint64_t kTmpfs = 0x01021994;
constexpr uint64_t kHugetlbfs = 0x958458F6;
constexpr uint64_t kExt4 = 0xEF53;  // and of ext2 and ext3, whose fallocate refuses
constexpr uint64_t kXfs = 0x58465342;

constexpr const char *kNetwork = "a network file system: locks and mappings do not hold between its machines";
constexpr const char *kServed = "which another program serves: it promises neither locks nor reserved space";
constexpr const char *kMoves = "which writes a changed page to a new place: what was reserved can still run out";
constexpr const char *kLayers = "a container's own layers, in which nothing can be reserved for certain";
constexpr const char *kUnfit = "which cannot reserve space for a file or cannot map one";

struct Refusal {
  uint64_t type;
  const char *name;
  const char *reason;
};

constexpr Refusal kRefusals[] = {
    {0x6969, "nfs", kNetwork},        {0x517B, "smb", kNetwork},          {0xFF534D42, "cifs", kNetwork},
    {0xFE534D42, "smb2", kNetwork},   {0x00C36400, "ceph", kNetwork},     {0x0BD00BD0, "lustre", kNetwork},
    {0x47504653, "gpfs", kNetwork},   {0x19830326, "beegfs", kNetwork},   {0x01161970, "gfs2", kNetwork},
    {0x7461636F, "ocfs2", kNetwork},  {0x20030528, "orangefs", kNetwork}, {0xAAD7AAEA, "panfs", kNetwork},
    {0x5346414F, "afs", kNetwork},    {0x6B414653, "afs", kNetwork},      {0x73757245, "coda", kNetwork},
    {0x01021997, "9p", kNetwork},     {0x65735546, "fuse", kServed},      {0x786F4256, "vboxsf", kServed},
    {0x794C7630, "overlay", kLayers}, {0x61756673, "aufs", kLayers},      {0x9123683E, "btrfs", kMoves},
    {0xF2F52010, "f2fs", kMoves},     {0x3434, "nilfs2", kMoves},         {0x2FC12FC1, "zfs", kMoves},
    {0xCA451A4E, "bcachefs", kMoves}, {0x858458F6, "ramfs", kUnfit},      {0x4D44, "vfat", kUnfit},
    {0x2011BAB0, "exfat", kUnfit},    {0x73717368, "squashfs", kUnfit},   {0x9FA0, "proc", kUnfit},
    {0x62656572, "sysfs", kUnfit},
};

}  // namespace

Status classify_file_system(uint64_t type, uint64_t block_bytes, const std::string &subject, FileSystem *found) {
  switch (type) {
    case kTmpfs: *found = {Medium::memory, kSmallPageBytes}; return {};
    case kHugetlbfs: *found = {Medium::huge_pages, block_bytes}; return {};
    case kExt4:
    case kXfs: *found = {Medium::disk, kSmallPageBytes}; return {};
    default: break;
  }
  constexpr const char *kRemedy =
      "give a directory on a local disk with ext4 or xfs (into a container: a mounted volume), on a tmpfs or on a "
      "hugetlbfs, or none for /dev/shm";
  const auto *refusal = std::find_if(std::begin(kRefusals), std::end(kRefusals),
                                     [type](const Refusal &candidate) { return candidate.type == type; });
  if (refusal == std::end(kRefusals)) {
    return failure(DC_ERROR_UNSUPPORTED, "%s is on a file system of type 0x%llx, which is not known to be safe: %s",
                   subject.c_str(), static_cast<unsigned long long>(type), kRemedy);
  }
  return failure(DC_ERROR_UNSUPPORTED, "%s is on %s, %s: %s", subject.c_str(), refusal->name, refusal->reason, kRemedy);
}

Status look_at_file_system(int fd, const std::string &subject, FileSystem *found) {
  struct statfs properties;
  if (fstatfs(fd, &properties) != 0) return system_failure("fstatfs", subject, errno);
  // 32 bits in a signed word, of which some types use the highest.
  return classify_file_system(static_cast<uint32_t>(properties.f_type), static_cast<uint64_t>(properties.f_bsize),
                              subject, found);
}

}  // namespace ddpcache
