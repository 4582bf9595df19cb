// The `ddpcache` command: what caches there are, what is in them, saving, restoring and removing them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <ddpcache/ddpcache.hpp>
#include <functional>
#include <string>
#include <vector>

#include "space.hpp"

namespace {

using ddpcache::readable_bytes;

struct Place {
  std::string directory;
  const char *c_str() const { return directory.empty() ? nullptr : directory.c_str(); }
};

std::vector<std::string> names_in(const Place &place) {
  std::string text;
  std::uint64_t needed = 0;
  dc_error error;
  // Another process may add a name between the calls.
  std::int32_t status = dc_cache_list(place.c_str(), nullptr, 0, &needed, &error);
  while (status == DC_ERROR_BUFFER) {
    text.resize(needed);
    status = dc_cache_list(place.c_str(), reinterpret_cast<std::uint8_t *>(text.data()), text.size(), &needed, &error);
  }
  if (status != DC_OK) throw ddpcache::Error(status, error.message);
  text.resize(needed);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

void list(const Place &place) {
  for (const std::string &name : names_in(place)) {
    try {
      const auto cache = ddpcache::Cache::attach_read_only(name, place.directory);
      const dc_cache_info info = cache.info();
      const dc_cache_stats stats = cache.stats();
      std::printf("%-32s %" PRIu64 " of %" PRId64 " samples, %s of %s, %u clients%s\n", name.c_str(), stats.resident,
                  info.length, readable_bytes(stats.reserved_bytes).c_str(), readable_bytes(info.file_bytes).c_str(),
                  info.clients_attached, info.keep ? ", kept" : "");
    } catch (const ddpcache::Error &error) {
      std::printf("%-32s %s\n", name.c_str(), error.what());
    }
  }
}

void show(const std::string &name, const Place &place) {
  const auto cache = ddpcache::Cache::attach_read_only(name, place.directory);
  const dc_cache_info i = cache.info();
  const dc_cache_stats s = cache.stats();
  std::printf("name          %s\nuuid          %s\nfingerprint   %s\nformat        %u\n", i.name, i.uuid, i.fingerprint,
              i.format_version);
  std::printf("samples       %" PRIu64 " of %" PRId64 ", each at most %s\n", s.resident, i.length,
              readable_bytes(i.sample_bytes_max).c_str());
  if (i.keyed) std::printf("keys          %" PRIu64 " of %" PRId64 "\n", i.keys, i.length);
  std::printf("memory        %s reserved of %s, in steps of %s\n", readable_bytes(s.reserved_bytes).c_str(),
              readable_bytes(i.file_bytes).c_str(), readable_bytes(i.step_bytes).c_str());
  std::printf("clients       %u of %u at most\nkept          %s\nchecksums     %s\ncreator       process %d\n",
              i.clients_attached, i.clients_max, i.keep ? "yes" : "no",
              i.checksums == DC_CHECKSUMS_OFF ? "off" : (i.checksums == DC_CHECKSUMS_FILL ? "fill" : "read"),
              i.creator_pid);
  std::printf("pages         of %s, on %u NUMA node%s\n", readable_bytes(i.page_bytes).c_str(), i.numa_nodes,
              i.numa_nodes == 1 ? " or where first written" : "s in turn");
  std::printf("hits          %" PRIu64 "\nmisses        %" PRIu64 "\nfills         %" PRIu64 "\naborts        %" PRIu64
              "\nwaits         %" PRIu64 "\ntime-outs     %" PRIu64 "\nbypasses      %" PRIu64
              "\ntakeovers     %" PRIu64 "\ndamaged       %" PRIu64 "\n",
              s.hits, s.misses, s.fills, s.aborts, s.waits, s.timeouts, s.bypasses, s.takeovers, s.damaged);
  std::printf("filled        %s\ncopied out    %s\nopen fills    %u, the oldest for %.3f s\n",
              readable_bytes(s.bytes_filled).c_str(), readable_bytes(s.bytes_copied).c_str(), s.open_fills,
              static_cast<double>(s.oldest_fill_age_ns) / 1e9);
}

volatile std::sig_atomic_t interrupted = 0;

// How far it is, on a line that is written over, where somebody sees it. Ends at Ctrl-C.
class ProgressLine {
 public:
  explicit ProgressLine(const char *verb) : verb_(verb) {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(SIGINT, &action, nullptr);
  }
  ~ProgressLine() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }

  bool operator()(std::uint64_t done, std::uint64_t total) {
    if (isatty(STDERR_FILENO) && total > 0) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
      std::fprintf(
          stderr, "\r%s: %3.0f %% of %s, %s/s\033[K", verb_,
          100 * static_cast<double>(done) / static_cast<double>(total), readable_bytes(total).c_str(),
          readable_bytes(static_cast<std::uint64_t>(static_cast<double>(done) / (passed.count() + 1e-9))).c_str());
      shown_ = true;
    }
    return interrupted == 0;
  }

 private:
  const char *verb_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

void save(const std::string &name, const std::string &file, const Place &place) {
  auto cache = ddpcache::Cache::attach(name, place.directory);
  ProgressLine line("saving");
  std::printf("saved %" PRId64 " samples\n", cache.save(file, std::ref(line)));
}

// Kept, since this process leaves it at once.
void restore(const std::string &file, const std::string &name, std::uint64_t capacity_bytes, const Place &place) {
  const dc_saved_info saved = ddpcache::Cache::saved(file);
  ddpcache::CacheOptions options(saved.length);
  options.droppable = saved.droppable;
  options.keyed = saved.keyed;
  options.capacity_bytes = capacity_bytes;
  options.keep = 1;
  ProgressLine line("restoring");
  const auto cache = ddpcache::Cache::restore(file, name, "", &options, place.directory, std::ref(line));
  const bool created = cache.info().created != 0;
  std::printf("%s: %" PRIu64 " of %" PRId64 " samples; kept until `ddpcache unlink %s`\n",
              created ? "restored" : "it is there already", cache.stats().resident, saved.length, name.c_str());
}

void show_saved(const std::string &file) {
  const dc_saved_info i = ddpcache::Cache::saved(file);
  const std::time_t saved = static_cast<std::time_t>(i.saved_unix_ns / 1'000'000'000);
  char time[32] = "";
  std::tm parts = {};
  if (gmtime_r(&saved, &parts)) std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", &parts);
  std::printf("name          %s\nuuid          %s\nfingerprint   %s\nsaved         %s, by ddpcache %s\n", i.name,
              i.uuid, i.fingerprint, time, i.library);
  std::printf("samples       %" PRId64 " of %" PRId64 ", with %s as stored, the largest %s\n", i.samples, i.length,
              readable_bytes(i.record_bytes).c_str(), readable_bytes(i.largest_bytes).c_str());
  if (i.keyed) std::printf("keys          %" PRIu64 "\n", i.keys);
  std::printf("capacity      %s\nfile          %s, version %u\n", readable_bytes(i.capacity_bytes).c_str(),
              readable_bytes(i.file_bytes).c_str(), i.version);
}

void check(const std::string &name, const Place &place) {
  const dc_cache_report r = ddpcache::Cache::attach_read_only(name, place.directory).check();
  std::printf("sound: %" PRIu64 " ready, %" PRIu64 " being filled, %" PRIu64 " orphaned, %" PRIu64 " bad; %" PRIu64
              " extents owned, %" PRIu64 " free, %" PRIu64 " named; %" PRIu64 " steps\n",
              r.entries_ready, r.entries_writing, r.entries_orphaned, r.entries_bad, r.extents_owned, r.extents_free,
              r.extents_named, r.steps_reserved);
  if (r.entries_unverified) std::printf("to be verified at their first use: %" PRIu64 "\n", r.entries_unverified);
  if (r.keys || r.keys_unfinished)
    std::printf("keys: %" PRIu64 ", %" PRIu64 " unfinished\n", r.keys, r.keys_unfinished);
}

void collect(const Place &place) {
  std::int32_t removed = 0;
  dc_error error;
  const std::int32_t status = dc_cache_gc(place.c_str(), &removed, &error);
  if (status != DC_OK) throw ddpcache::Error(status, error.message);
  std::printf("removed %d\n", removed);
}

void remove_name(const std::string &name, const Place &place) {
  if (!ddpcache::Cache::unlink(name, place.directory)) {
    throw ddpcache::Error(DC_ERROR_NOT_FOUND, "there is no cache " + name);
  }
}

}  // namespace

int main(int count, char **arguments) {
  CLI::App app("Caches of decoded samples in shared memory: what there is, saving, restoring and removing it.");
  Place place;
  std::string name;
  app.set_version_flag("--version", dc_version());
  app.add_option("--directory", place.directory, "where the caches are; /dev/shm unless said");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_subcommand("list", "a line for each cache of this user")->callback([&] { list(place); });
  app.add_subcommand("gc", "remove the caches that nobody is attached to and that are not kept")->callback([&] {
    collect(place);
  });
  const auto on_one = [&](const char *command, const char *what, auto action) {
    CLI::App *sub = app.add_subcommand(command, what);
    sub->add_option("NAME", name, "the cache")->required();
    sub->callback([&, action] { action(name, place); });
  };
  on_one("show", "options and counts of a cache that is in use or kept, or of a saved file: a path with a /",
         [](const std::string &what, const Place &where) {
           what.find('/') == std::string::npos ? show(what, where) : show_saved(what);
         });
  on_one("check", "prove every invariant of a cache", check);
  on_one("unlink", "remove a cache's name; who has it open goes on with it", remove_name);
  std::string file;
  CLI::App *saving = app.add_subcommand("save", "write all samples of a cache that is in use or kept to a file");
  saving->add_option("NAME", name, "the cache")->required();
  saving->add_option("FILE", file, "the file; one that is there is replaced")->required();
  saving->callback([&] { save(name, file, place); });
  std::uint64_t capacity_bytes = 0;
  CLI::App *restoring = app.add_subcommand("restore", "make a cache of a saved file, and keep it");
  restoring->add_option("FILE", file, "the file")->required();
  restoring->add_option("NAME", name, "the cache")->required();
  restoring->add_option("--capacity", capacity_bytes, "of the cache, such as 8GiB; that of the saved one unless said")
      ->transform(CLI::AsSizeValue(false));
  restoring->callback([&] { restore(file, name, capacity_bytes, place); });
  try {
    app.parse(count, arguments);
    return 0;
  } catch (const CLI::ParseError &error) {
    return app.exit(error);
  } catch (const ddpcache::Interrupted &) {
    std::fprintf(stderr, "ddpcache: interrupted, nothing has changed\n");
    return 130;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "ddpcache: %s\n", error.what());
    return 1;
  }
}
