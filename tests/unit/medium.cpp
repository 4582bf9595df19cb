// Where a cache may lie, by the types that statfs(2) gives.
#include "medium.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ddpcache/base.h"

namespace ddpcache {
namespace {

TEST(Medium, IsKnownForTheFileSystemsThatACacheMayLieOn) {
  const struct {
    uint64_t type;
    Medium medium;
  } kAccepted[] = {{0x01021994, Medium::memory},
                   {0x958458F6, Medium::huge_pages},
                   {0xEF53, Medium::disk},
                   {0x58465342, Medium::disk}};
  for (const auto &[type, medium] : kAccepted) {
    FileSystem found;
    ASSERT_TRUE(classify_file_system(type, 2 << 20, "/there", &found).ok()) << std::hex << type;
    EXPECT_EQ(found.medium, medium);
    EXPECT_EQ(found.page_bytes, medium == Medium::huge_pages ? 2u << 20 : 4096u);
  }
}

TEST(Medium, IsRefusedByNameWithAReasonAndARemedyElsewhere) {
  const struct {
    uint64_t type;
    const char *name;
    const char *reason;
  } kRefused[] = {{0x6969, " nfs,", "network"},        {0xFF534D42, " cifs,", "network"},
                  {0xFE534D42, " smb2,", "network"},   {0x0BD00BD0, " lustre,", "network"},
                  {0x00C36400, " ceph,", "network"},   {0x01021997, " 9p,", "network"},
                  {0x47504653, " gpfs,", "network"},   {0x65735546, " fuse,", "another program"},
                  {0x794C7630, " overlay,", "layers"}, {0x9123683E, " btrfs,", "new place"},
                  {0xF2F52010, " f2fs,", "new place"}, {0x2FC12FC1, " zfs,", "new place"},
                  {0x858458F6, " ramfs,", "reserve"},  {0x12345678, "0x12345678", "not known"}};
  for (const auto &[type, name, reason] : kRefused) {
    FileSystem found;
    const Status status = classify_file_system(type, 4096, "/there", &found);
    EXPECT_EQ(status.code(), DC_ERROR_UNSUPPORTED);
    for (const std::string part : {"/there", name, reason, "ext4 or xfs", "/dev/shm"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << part << " is not in: " << status.message();
    }
  }
}

TEST(Medium, IsLookedUpByDescriptorAndAClosedOneIsAnError) {
  FileSystem found;
  EXPECT_EQ(look_at_file_system(-1, "/there", &found).code(), DC_ERROR_SYSTEM);
}

}  // namespace
}  // namespace ddpcache
