#include "cache_check_museum.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "record.hpp"

namespace ddpcache::test {

Museum::Museum(const Exhibition &exhibition) : exhibition_(exhibition) {
  if (exhibition.on_disk) {
    directory_ = (std::filesystem::temp_directory_path() / ("ddpcache-museum-" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(directory_);
  }
  name_ = std::make_unique<CacheName>(exhibition.on_disk ? directory_.c_str() : nullptr);
  // On a disk the file's blocks are some more than its own, so steps there are larger.
  const uint64_t capacity = exhibition.on_disk ? 4 << 20 : exhibition.sample_bytes ? 64 << 10 : 256 << 10;
  dc_cache_options options =
      options_for(kLength, capacity, exhibition.sample_bytes, exhibition.sample_bytes ? 0 : 4000);
  options.clients_max = kClients;
  options.droppable = exhibition.droppable;
  options.keyed = exhibition.keyed;
  options.checksums = exhibition.checksums;
  cache_ = open_cache(*name_, options);
  store_samples();
  leave_clients_behind();
  open_fills(cache_, kClaimed, kAllocated);
  open_fills(other_, kOthersClaimed, kOthersAllocated);
  for (dc_cache *cache : {static_cast<dc_cache *>(cache_), static_cast<dc_cache *>(other_)}) {
    for (const int64_t index : {int64_t{1}, int64_t{2}, kRemovedInView}) {
      dc_view view;
      if (dc_cache_view(cache, index, &view) == DC_OK) views_.push_back(view);
    }
  }
  if (exhibition.droppable) {
    EXPECT_EQ(dc_cache_remove(cache_, kRemovedInView), DC_OK);
  }

  map_again(*name_, &segment_);
  // A record that is spoilt, as its reader finds.
  Extent extent;
  EXPECT_TRUE(segment_.find_extent(EntryWord(segment_.entry(kBad).load()).place(), &extent));
  segment_.writable(extent)[0] ^= 1;
  dc_view view;
  EXPECT_EQ(dc_cache_view(cache_, kBad, &view), DC_MISS);
  Finding sound = check_of(cache_);  // which notes the dead
  EXPECT_EQ(sound.status, DC_OK) << sound.text;
  uint32_t steps = 0;
  while (steps < segment_.layout.steps && segment_.step_word(steps).load() != 0) ++steps;
  EXPECT_LT(steps, segment_.layout.steps) << "there is a step that is not taken";
  before_.assign(bytes(), bytes() + segment_.layout.arena_offset);
  arena_.assign(segment_.arena(), segment_.arena() + steps * segment_.layout.step_bytes);
}

Museum::~Museum() {
  restore_all();
  for (dc_view &view : views_) dc_cache_view_release(&view);
  for (dc_fill *fill : fills_) EXPECT_EQ(dc_cache_fill_abort(fill), DC_OK);
  other_.close();
  cache_.close();
  name_.reset();
  if (!directory_.empty()) std::filesystem::remove_all(directory_);
}

uint64_t Museum::size_of(int64_t index) const {
  return exhibition_.sample_bytes ? exhibition_.sample_bytes : 60 + static_cast<uint64_t>(index % 4) * 450;
}

void Museum::store_samples() {
  if (exhibition_.keyed) {
    int64_t index = 0;
    for (int i = 0; i < 25; ++i) EXPECT_EQ(intern(cache_, "key " + std::to_string(i), &index), DC_OK);
  }
  for (int64_t index = 0; index < kStored; ++index) EXPECT_EQ(put(cache_, index, size_of(index)), DC_OK);
  for (const int64_t index : {kBad, kRemoved, kRemovedInView}) EXPECT_EQ(put(cache_, index, size_of(index)), DC_OK);
  if (exhibition_.sample_bytes == 0) {
    EXPECT_EQ(put_rich(25), DC_OK);
  }
  if (exhibition_.droppable) {
    EXPECT_EQ(dc_cache_remove(cache_, kRemoved), DC_OK);
  }
}

// With names, a structure and gaps.
int32_t Museum::put_rich(int64_t index) {
  dc_fill *fill = nullptr;
  if (const int32_t status = dc_cache_fill_begin(cache_, index, 0, &fill)) return status;
  dc_array arrays[2] = {byte_array(33), byte_array(40)};
  arrays[1].dtype_bits = 16;
  arrays[1].shape[0] = 4;
  arrays[1].shape[1] = 5;
  arrays[1].dimensions = 2;
  std::strcpy(arrays[0].name, "image");
  if (const int32_t status = dc_cache_fill_allocate(fill, arrays, 2, "[0, 1]", nullptr)) return status;
  for (const dc_array &array : arrays) write_pattern(array.data, array.bytes, index);
  return dc_cache_fill_commit(fill);
}

void Museum::open_fills(dc_cache *cache, int64_t claimed, int64_t allocated) {
  for (const int64_t index : {claimed, allocated}) {
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(cache, index, 0, &fill), DC_OK);
    fills_.push_back(fill);
    dc_array array = byte_array(size_of(index));
    if (index == allocated) {
      ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    }
  }
}

// Two that come and go while others have come too: one leaves its record free, the other is killed in the middle of two
// fills and a look.
void Museum::leave_clients_behind() {
  int ready[2], go[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(go, O_CLOEXEC), 0);
  pid_t children[2];
  char byte = 0;
  for (const bool killed : {false, true}) {
    const pid_t child = children[killed] = fork();
    if (child == 0) _exit(visit(killed, ready[1], go[0]));
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
  }
  dc_cache *other = nullptr;
  ASSERT_EQ(dc_cache_attach(name_->c_str(), name_->directory(), 10 * kSecond, &other, nullptr), DC_OK);
  other_ = Handle(other);
  ASSERT_EQ(write(go[1], "gg", 2), 2);
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}

int Museum::visit(bool killed, int ready, int go) {
  dc_cache *mine = nullptr;
  if (dc_cache_attach(name_->c_str(), name_->directory(), 10 * kSecond, &mine, nullptr) != DC_OK) return 1;
  dc_view view;
  if (dc_cache_view(mine, 3, &view) != DC_OK) return 2;
  if (killed) open_fills(mine, kOrphanClaimed, kOrphaned);
  char byte = 0;
  if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1) return 3;
  if (killed) return 0;  // _exit is to the cache what SIGKILL is
  dc_cache_view_release(&view);
  return dc_cache_close(mine);
}

void Museum::restore(uint64_t touched_offset, uint64_t touched_bytes) {
  std::memcpy(bytes(), before_.data(), before_.size());
  const uint64_t arena = segment_.layout.arena_offset;
  if (touched_offset >= arena) {
    std::memcpy(bytes() + touched_offset, arena_.data() + (touched_offset - arena), touched_bytes);
  }
}

bool Finding::names(uint64_t offset) const {
  const auto is_at = [&](uint64_t byte) { return offset / 8 == byte / 8 || (offset >= byte && offset < byte + 8); };
  for (size_t at = text.find("byte"); at != std::string::npos; at = text.find("byte", at + 1)) {
    // "byte N", "bytes N and M", or "bytes N to M".
    unsigned long long first = 0, second = 0;
    char word[4] = "";
    const char *numbers = text.c_str() + at + (text[at + 4] == 's' ? 5 : 4);
    const int found = std::sscanf(numbers, " %llu %3s %llu", &first, word, &second);
    if (found >= 1 && is_at(first)) return true;
    if (found < 3) continue;
    if (std::strcmp(word, "to") == 0 ? first <= offset && offset <= second : is_at(second)) return true;
  }
  return false;
}

Finding check_of(dc_cache *cache) {
  Finding finding;
  finding.report.struct_size = sizeof finding.report;
  dc_error error = {};
  finding.status = dc_cache_check(cache, &finding.report, &error);
  finding.text = error.message;
  return finding;
}

}  // namespace ddpcache::test
