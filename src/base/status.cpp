#include "status.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>

namespace ddpcache {

namespace {

// Takes the beginning of a character that was cut in the middle off the end of UTF-8 text.
size_t whole_characters(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 3 && (static_cast<unsigned char>(text[begin - 1]) & 0xC0) == 0x80) --begin;
  if (begin == 0) return text.size();
  const unsigned char lead = static_cast<unsigned char>(text[begin - 1]);
  const size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  return text.size() - (begin - 1) < wanted ? begin - 1 : text.size();
}

}  // namespace

Status failure(int32_t code, const char *format, ...) {
  char text[sizeof(dc_error::message)];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::string_view cut = text;
  return {code, std::string(cut.substr(0, whole_characters(cut)))};
}

Status system_failure(const char *call, const std::string &subject, int error_number) {
  return {DC_ERROR_SYSTEM, std::string(call) + " of " + subject + ": " + std::generic_category().message(error_number)};
}

const char *status_text(int32_t code) {
  switch (code) {
    case DC_OK: return "success";
    case DC_MISS: return "the index is not in the cache";
    case DC_BUSY: return "another client is filling this index";
    case DC_FULL: return "the cache has no room for this sample";
    case DC_END: return "no further element";
    case DC_INTERRUPTED: return "a signal arrived while waiting";
    case DC_PRESENT: return "the index is in the cache already";
    case DC_ERROR_ARGUMENT: return "invalid argument";
    case DC_ERROR_RANGE: return "out of range";
    case DC_ERROR_NO_MEMORY: return "out of memory";
    case DC_ERROR_SYSTEM: return "a system call failed";
    case DC_ERROR_INTERNAL: return "internal error of ddpcache";
    case DC_ERROR_UNSUPPORTED: return "not supported here";
    case DC_ERROR_STATE: return "not allowed in this state";
    case DC_ERROR_NAME: return "invalid cache name";
    case DC_ERROR_NOT_FOUND: return "no such cache";
    case DC_ERROR_MISMATCH: return "the cache has other options";
    case DC_ERROR_FINGERPRINT: return "the cache has another fingerprint";
    case DC_ERROR_FORMAT: return "the cache has another format";
    case DC_ERROR_DAMAGED: return "the cache file is damaged";
    case DC_ERROR_PERMISSION: return "the cache file is not usable by this user";
    case DC_ERROR_NO_SPACE: return "not enough memory or space";
    case DC_ERROR_CLIENTS: return "the cache has no room for another client";
    case DC_ERROR_LOCKED: return "the lock file is held by another process";
    case DC_ERROR_TOO_LARGE: return "the sample is too large";
    case DC_ERROR_LOADER: return "the loader failed";
    case DC_ERROR_RECURSION: return "this thread is already filling this index";
    case DC_ERROR_LOST: return "the fill was taken over";
    case DC_ERROR_FILLS: return "too many open fills";
    case DC_ERROR_RECORD: return "the sample has other arrays";
    case DC_ERROR_BUFFER: return "the buffer is too small";
    case DC_ERROR_THREAD: return "the fill belongs to another thread";
    case DC_ERROR_UNREGISTERED: return "this process has lost its registration";
    case DC_ERROR_TOPOLOGY: return "the topology is unknown or contradictory";
    case DC_ERROR_EMPTY: return "no sample is left for any rank";
    case DC_ERROR_SAMPLER_STATE: return "invalid sampler state";
    default: return "unknown status";
  }
}

void export_error(const Status &status, dc_error *error) {
  if (!error) return;
  // No allocation: this also reports that there is no memory.
  std::string_view text = status.message();
  if (text.empty()) text = status_text(status.code());
  const size_t length = whole_characters(text.substr(0, sizeof error->message - 1));
  error->status = status.code();
  error->reserved = 0;
  std::memcpy(error->message, text.data(), length);
  error->message[length] = '\0';
}

}  // namespace ddpcache
