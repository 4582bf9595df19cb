// Saved files, damaged and sealed again so that they are believed: info and restore say what is wrong, or give a sound
// cache.
#include "saved.hpp"

#include <sys/mman.h>

#include <vector>

#include "playground.hpp"
#include "record.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

constexpr int64_t kLengthMost = 4'096;  // of a cache that is really made
constexpr uint64_t kSampleMost = 1 << 20;

std::string own_path(const char *suffix) { return "/dev/shm/fuzz-" + std::to_string(getpid()) + suffix; }

// What dc_cache_save wrote of a small cache.
std::vector<uint8_t> saved_bytes(const Playground &ground) {
  const std::string path = own_path(".saved");
  dc_error error = {};
  if (dc_cache_save(ground.writer(), path.c_str(), nullptr, nullptr, nullptr, &error) != DC_OK) {
    finding(__FILE__, __LINE__, error.message);
  }
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat properties = {};
  DC_MUST(fstat(file.get(), &properties) == 0 && unlink(path.c_str()) == 0);
  std::vector<uint8_t> bytes(static_cast<size_t>(properties.st_size));
  DC_MUST(pread(file.get(), bytes.data(), bytes.size(), 0) == properties.st_size);
  return bytes;
}

const std::vector<uint8_t> &original(uint32_t kind) {
  static const auto *all = new std::array<std::vector<uint8_t>, 4>{
      saved_bytes(playground(0)), saved_bytes(playground(1)), saved_bytes(playground(2)), saved_bytes(playground(3))};
  return (*all)[kind];
}

template <typename T>
T at(const std::vector<uint8_t> &bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put(std::vector<uint8_t> *bytes, size_t offset, const T &value) {
  std::memcpy(bytes->data() + offset, &value, sizeof value);
}

// Makes every check right again, as far as the numbers of the file lead.
void seal(std::vector<uint8_t> *bytes) {
  if (bytes->size() < sizeof(SavedHeader)) return;
  SavedHeader header = at<SavedHeader>(*bytes, 0);
  header.file_bytes = bytes->size();
  uint64_t check = 0, offset = sizeof header;
  for (uint64_t i = 0; i < header.key_slots && offset + sizeof(SavedKey) <= bytes->size(); ++i) {
    SavedKey key = at<SavedKey>(*bytes, offset);
    key.check = check = key_check(check, key);
    put(bytes, offset, key);
    offset += sizeof key;
  }
  while (offset + sizeof(SavedFrame) + sizeof(RecordHead) <= bytes->size()) {
    SavedFrame frame = at<SavedFrame>(*bytes, offset);
    uint8_t *record = bytes->data() + offset + sizeof frame;
    seal_record(record, bytes->size() - offset - sizeof frame, frame.index);
    const RecordHead head = at<RecordHead>(*bytes, offset + sizeof frame);
    frame.check = check = frame_check(check, frame.index, head);
    put(bytes, offset, frame);
    const uint64_t after = bytes->size() - offset - sizeof frame;
    if (head.record_bytes < sizeof head || head.record_bytes > after) break;
    offset += sizeof frame + head.record_bytes;
  }
  header.last_check = check;
  seal_saved_header(&header);
  put(bytes, 0, header);
}

void change(Input &input, std::vector<uint8_t> *bytes) {
  for (uint32_t changes = input.below(8); changes > 0; --changes) {
    // The header's numbers, its sizes, or anything behind.
    const uint32_t where = input.below(4);
    const size_t begin = where == 0 ? 0 : where == 1 ? 16 : sizeof(SavedHeader);
    const size_t span = where == 0 ? sizeof(SavedHeader) : where == 1 ? 120 : bytes->size() - begin;
    const size_t offset = begin + input.take<uint16_t>() % std::max<size_t>(1, span) / 8 * 8 + input.below(8);
    const size_t width = size_t{1} << input.below(4);
    const uint64_t value =
        input.coin() ? input.number() : at<uint64_t>(*bytes, std::min(offset, bytes->size() - 8)) + 1;
    if (offset + width <= bytes->size()) std::memcpy(bytes->data() + offset, &value, width);
  }
  if (input.below(8) == 0) bytes->resize(input.take<uint16_t>() % (bytes->size() + 100));
}

void restore(Input &input, const std::string &path, const std::vector<uint8_t> &bytes) {
  const std::string name = "fuzz-" + std::to_string(getpid()) + "-restored";
  SavedHeader header = {};
  if (bytes.size() >= sizeof header) header = at<SavedHeader>(bytes, 0);
  dc_cache_options options;
  dc_cache_options_init(&options, sizeof options);
  options.clients_max = 2;
  options.keyed = header.keyed & 1;
  options.droppable = input.coin();
  options.checksums = input.below(3);
  options.capacity_bytes = input.coin() ? 0 : input.take<uint16_t>() * 8;
  options.sample_bytes_max = input.coin() ? 0 : input.take<uint16_t>();
  // A file may ask for gigabytes, and get them; here that would take too long.
  if (header.length < 0 || header.length > kLengthMost) options.length = 1;
  if (std::max(header.sample_bytes, header.sample_bytes_max) > kSampleMost && options.sample_bytes_max == 0) {
    options.sample_bytes_max = kSampleMost;
  }
  dc_cache *cache = nullptr;
  dc_error error = {};
  const int32_t status =
      dc_cache_restore(path.c_str(), name.c_str(), nullptr, nullptr, &options, nullptr, nullptr, &cache, &error);
  DC_MUST(status == DC_OK ? cache != nullptr : status < 0 && status != DC_ERROR_INTERNAL && cache == nullptr);
  if (status != DC_OK) return;
  dc_cache_report report = {};
  report.struct_size = sizeof report;
  if (dc_cache_check(cache, &report, &error) != DC_OK) finding(__FILE__, __LINE__, error.message);
  DC_MUST(report.entries_ready == header.samples);
  DC_MUST(dc_cache_close(cache) == DC_OK);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int fd = memfd_create("fuzz-saved", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Input input(data, size);
  std::vector<uint8_t> bytes = original(input.below(4));
  change(input, &bytes);
  if (input.below(8)) seal(&bytes);
  DC_MUST(ftruncate(fd, static_cast<off_t>(bytes.size())) == 0);
  DC_MUST(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  dc_saved_info info = {};
  info.struct_size = sizeof info;
  const int32_t status = dc_saved_info_get(path.c_str(), &info, nullptr);
  DC_MUST(status == DC_OK || status == DC_ERROR_DAMAGED || status == DC_ERROR_FORMAT);
  restore(input, path, bytes);
  return 0;
}
