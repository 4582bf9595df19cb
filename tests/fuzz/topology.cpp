// The launchers' variables: whatever they say, the topology that is detected is one, or they are refused.
#include "topology.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "input.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

constexpr std::array kVariables = {"RANK",
                                   "WORLD_SIZE",
                                   "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE",
                                   "GROUP_RANK",
                                   "NODE_RANK",
                                   "GROUP_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK",
                                   "OMPI_COMM_WORLD_LOCAL_SIZE",
                                   "PMI_RANK",
                                   "PMI_SIZE",
                                   "MPI_LOCALRANKID",
                                   "MPI_LOCALNRANKS",
                                   "SLURM_PROCID",
                                   "SLURM_LOCALID",
                                   "SLURM_NODEID",
                                   "SLURM_STEP_NUM_TASKS",
                                   "SLURM_STEP_NUM_NODES",
                                   "SLURM_STEP_TASKS_PER_NODE",
                                   "SLURM_NTASKS",
                                   "SLURM_NNODES",
                                   "SLURM_TASKS_PER_NODE",
                                   "SLURM_NTASKS_PER_NODE",
                                   "MASTER_ADDR"};

std::string some_value(Input &input) {
  switch (input.below(6)) {
    case 0: return std::to_string(input.number());
    case 1: return std::to_string(input.below(9)) + "(x" + std::to_string(input.below(9)) + ")";
    case 2: return std::to_string(input.below(9)) + "," + std::to_string(input.below(9));
    case 3: {
      const std::span<const uint8_t> text = input.bytes(input.below(40));
      return {text.begin(), text.end()};
    }
    default: return std::to_string(input.below(9));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  std::array<std::optional<std::string>, kVariables.size()> values;
  while (!input.empty()) values[input.below(kVariables.size())] = some_value(input);
  dc_topology found = {};
  const Status status = detect_topology(
      [&](const char *name) -> const char * {
        for (size_t i = 0; i < kVariables.size(); ++i) {
          if (kVariables[i] == std::string_view(name)) return values[i] ? values[i]->c_str() : nullptr;
        }
        finding(__FILE__, __LINE__, "a variable that this target does not know");
      },
      &found);
  DC_MUST(status.ok() || (status.code() == DC_ERROR_TOPOLOGY && !status.message().empty()));
  if (!status.ok()) return 0;
  DC_MUST(found.world_size == uint64_t{found.nodes} * found.local_size && found.world_size >= 1);
  DC_MUST(found.world_size <= DC_SAMPLER_WORLD_MAX && found.rank < found.world_size);
  DC_MUST(found.node < found.nodes && found.local_rank < found.local_size);
  return 0;
}
