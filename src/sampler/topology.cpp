#include "topology.hpp"

#include <array>
#include <cinttypes>
#include <cstring>
#include <optional>
#include <string_view>

namespace ddpcache {
namespace {

using Count = std::optional<uint64_t>;

// What one group of variables says about this process. Absent: it does not say.
struct Facts {
  int32_t launcher = DC_LAUNCHER_NONE;
  Count rank, world, local_rank, local_size, node, nodes;
  std::string fault;

  bool any() const { return rank || world || local_rank || local_size || !fault.empty(); }
  bool sound() const { return fault.empty(); }

  // The first fault counts.
  void complain(std::string what) {
    if (fault.empty()) fault = std::move(what);
  }
};

std::optional<uint64_t> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 10) return std::nullopt;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value <= DC_SAMPLER_WORLD_MAX ? std::optional(value) : std::nullopt;
}

// Reads variables and remembers them for the error message.
class Variables {
 public:
  explicit Variables(const Environment &environment) : environment_(environment) {}

  const char *text(const char *name) {
    const char *value = environment_(name);
    if (value) seen_ += std::string(seen_.empty() ? "" : " ") + name + "=" + value;
    return value;
  }

  Count number(const char *name, Facts &facts) {
    const char *value = text(name);
    if (!value) return std::nullopt;
    const Count parsed = parse_number(value);
    if (!parsed) facts.complain(std::string(name) + " is not a number of 0.." + std::to_string(DC_SAMPLER_WORLD_MAX));
    return parsed;
  }

  const std::string &seen() const { return seen_; }

 private:
  const Environment &environment_;
  std::string seen_;
};

// torchrun sets all of them; Lightning's launcher NODE_RANK, LOCAL_RANK and WORLD_SIZE.
Facts read_torch(Variables &variables) {
  Facts facts;
  facts.rank = variables.number("RANK", facts);
  facts.world = variables.number("WORLD_SIZE", facts);
  facts.local_rank = variables.number("LOCAL_RANK", facts);
  facts.local_size = variables.number("LOCAL_WORLD_SIZE", facts);
  facts.node = variables.number("GROUP_RANK", facts);
  // torchrun may number nodes otherwise than the NODE_RANK that it was started with.
  if (!facts.node) facts.node = variables.number("NODE_RANK", facts);
  facts.nodes = variables.number("GROUP_WORLD_SIZE", facts);
  facts.launcher = facts.rank ? DC_LAUNCHER_TORCHRUN : DC_LAUNCHER_LIGHTNING;
  return facts;
}

Facts read_open_mpi(Variables &variables) {
  Facts facts;
  facts.launcher = DC_LAUNCHER_OPEN_MPI;
  facts.rank = variables.number("OMPI_COMM_WORLD_RANK", facts);
  facts.world = variables.number("OMPI_COMM_WORLD_SIZE", facts);
  facts.local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK", facts);
  facts.local_size = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", facts);
  return facts;
}

Facts read_pmi(Variables &variables) {
  Facts facts;
  facts.launcher = DC_LAUNCHER_MPI;
  facts.rank = variables.number("PMI_RANK", facts);
  facts.world = variables.number("PMI_SIZE", facts);
  facts.local_rank = variables.number("MPI_LOCALRANKID", facts);
  facts.local_size = variables.number("MPI_LOCALNRANKS", facts);
  return facts;
}

// Slurm's list of tasks on each node: "4(x2)" is two nodes of 4, "4,3" one of 4 and one of 3.
void read_tasks_per_node(Variables &variables, const char *name, Facts &facts) {
  const char *value = variables.text(name);
  if (!value) return;
  std::string_view rest = value;
  uint64_t nodes = 0;
  for (size_t comma = 0; comma != std::string_view::npos; rest = rest.substr(comma + 1)) {
    comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    Count repeat = 1;
    if (const size_t open = item.find("(x"); open != std::string_view::npos && item.back() == ')') {
      repeat = parse_number(item.substr(open + 2, item.size() - open - 3));
      item = item.substr(0, open);
    }
    const Count tasks = parse_number(item);
    if (!tasks || !repeat) return facts.complain(std::string(name) + " is not of the form 4(x2),3");
    if (facts.local_size && *facts.local_size != *tasks) {
      return facts.complain(std::string(name) + " gives the nodes different numbers of processes");
    }
    facts.local_size = tasks;
    nodes += *repeat;
  }
  if (facts.nodes && *facts.nodes != nodes) {
    return facts.complain(std::string(name) + " lists " + std::to_string(nodes) + " nodes and not " +
                          std::to_string(*facts.nodes));
  }
  facts.nodes = nodes;
}

Facts read_slurm(Variables &variables) {
  Facts facts;
  facts.rank = variables.number("SLURM_PROCID", facts);
  if (!facts.rank) return facts;  // the rest is also set where srun has started nothing
  facts.launcher = DC_LAUNCHER_SLURM;
  facts.local_rank = variables.number("SLURM_LOCALID", facts);
  facts.node = variables.number("SLURM_NODEID", facts);
  // A step may have fewer tasks than its job, whose variables it inherits.
  facts.world = variables.number("SLURM_STEP_NUM_TASKS", facts);
  if (facts.world) {
    facts.nodes = variables.number("SLURM_STEP_NUM_NODES", facts);
    read_tasks_per_node(variables, "SLURM_STEP_TASKS_PER_NODE", facts);
    return facts;
  }
  facts.world = variables.number("SLURM_NTASKS", facts);
  facts.nodes = variables.number("SLURM_NNODES", facts);
  read_tasks_per_node(variables, "SLURM_TASKS_PER_NODE", facts);
  // What was asked for, not always what was given: it counts only without the other.
  if (!facts.local_size) facts.local_size = variables.number("SLURM_NTASKS_PER_NODE", facts);
  return facts;
}

// Takes from `other` what `facts` does not know. Another world size means that it speaks of other processes, such as
// one task a node that starts a process for each GPU.
void complete_from(const Facts &other, Facts &facts) {
  if (!other.sound()) return facts.complain(other.fault);
  if (!other.rank || !other.world || (facts.world && *facts.world != *other.world)) return;
  if (facts.rank && *facts.rank != *other.rank) {
    return facts.complain("two launchers give this process the ranks " + std::to_string(*facts.rank) + " and " +
                          std::to_string(*other.rank) + " of " + std::to_string(*other.world));
  }
  for (Count Facts::*field :
       {&Facts::rank, &Facts::world, &Facts::local_rank, &Facts::local_size, &Facts::node, &Facts::nodes}) {
    if (!(facts.*field)) facts.*field = other.*field;
  }
}

bool is_loopback(const char *address) {
  return address && (std::strcmp(address, "localhost") == 0 || std::strcmp(address, "::1") == 0 ||
                     std::strncmp(address, "127.", 4) == 0);
}

// The counts follow from each other: world = nodes * local_size.
void derive_counts(Facts &facts) {
  if (!facts.world && facts.nodes && facts.local_size) facts.world = *facts.nodes * *facts.local_size;
  if (!facts.world) return facts.complain("the number of ranks is unknown");
  if (*facts.world > DC_SAMPLER_WORLD_MAX) {
    return facts.complain(std::to_string(*facts.world) + " ranks are more than " +
                          std::to_string(DC_SAMPLER_WORLD_MAX));
  }
  if (*facts.world == 1 && !facts.local_size) facts.local_size = 1;
  if (!facts.local_size && facts.nodes) {
    if (*facts.nodes == 0 || *facts.world % *facts.nodes != 0) {
      return facts.complain(std::to_string(*facts.world) + " processes cannot be spread evenly over " +
                            std::to_string(*facts.nodes) + " nodes");
    }
    facts.local_size = *facts.world / *facts.nodes;
  }
  if (!facts.local_size) {
    return facts.complain("the number of ranks on each node is unknown: set LOCAL_RANK and LOCAL_WORLD_SIZE");
  }
  if (*facts.local_size == 0 || *facts.world % *facts.local_size != 0) {
    return facts.complain(std::to_string(*facts.world) + " ranks are not a multiple of " +
                          std::to_string(*facts.local_size) + " on each node");
  }
  if (!facts.nodes) facts.nodes = *facts.world / *facts.local_size;
  if (*facts.nodes * *facts.local_size != *facts.world) {
    facts.complain(std::to_string(*facts.nodes) + " nodes of " + std::to_string(*facts.local_size) +
                   " ranks each are not " + std::to_string(*facts.world) + " ranks");
  }
}

// The places follow from each other where ranks are numbered node after node.
void derive_places(Facts &facts) {
  const uint64_t local_size = *facts.local_size;
  if (!facts.node && *facts.nodes == 1) facts.node = 0;
  if (!facts.local_rank && local_size == 1) facts.local_rank = 0;
  if (!facts.local_rank && facts.rank && facts.node) {
    if (*facts.rank / local_size != *facts.node) {
      return facts.complain("rank " + std::to_string(*facts.rank) + " is not on node " + std::to_string(*facts.node) +
                            " where ranks are numbered node after node");
    }
    facts.local_rank = *facts.rank % local_size;
  }
  if (!facts.local_rank) return facts.complain("this process's rank on its node is unknown: set LOCAL_RANK");
  if (!facts.node && facts.rank) {
    if (*facts.rank % local_size != *facts.local_rank) {
      return facts.complain("the node of this process is unknown: rank " + std::to_string(*facts.rank) +
                            " is not local rank " + std::to_string(*facts.local_rank) +
                            " where ranks are numbered node after node");
    }
    facts.node = *facts.rank / local_size;
  }
  if (!facts.node) return facts.complain("the number of this node is unknown");
  if (!facts.rank) facts.rank = *facts.node * local_size + *facts.local_rank;
  if (*facts.node >= *facts.nodes || *facts.local_rank >= local_size || *facts.rank >= *facts.world) {
    return facts.complain("rank " + std::to_string(*facts.rank) + " (of " + std::to_string(*facts.world) + "), node " +
                          std::to_string(*facts.node) + " (of " + std::to_string(*facts.nodes) + ") or local rank " +
                          std::to_string(*facts.local_rank) + " (of " + std::to_string(local_size) + ") is too large");
  }
  // Slurm and MPI can deal ranks to nodes in turn; torchrun and Lightning never do.
  const bool consecutive = facts.launcher == DC_LAUNCHER_TORCHRUN || facts.launcher == DC_LAUNCHER_LIGHTNING;
  if (consecutive && *facts.rank != *facts.node * local_size + *facts.local_rank) {
    facts.complain("rank " + std::to_string(*facts.rank) + " is not local rank " + std::to_string(*facts.local_rank) +
                   " of node " + std::to_string(*facts.node));
  }
}

}  // namespace

Status detect_topology(const Environment &environment, dc_topology *topology) {
  Variables variables(environment);
  const std::array<Facts, 4> groups = {read_torch(variables), read_open_mpi(variables), read_pmi(variables),
                                       read_slurm(variables)};
  Facts facts;
  for (const Facts &group : groups) {
    if (!group.any()) continue;
    if (!facts.any()) {
      facts = group;
    } else if (!facts.local_size || !facts.local_rank || !facts.world || !facts.rank) {
      complete_from(group, facts);
    }
  }
  if (!facts.any()) facts = {DC_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1, ""};
  if (!facts.local_size && !facts.nodes && is_loopback(variables.text("MASTER_ADDR"))) facts.nodes = 1;
  if (facts.sound()) derive_counts(facts);
  if (facts.sound()) derive_places(facts);
  if (!facts.sound()) return {DC_ERROR_TOPOLOGY, facts.fault + "; found " + variables.seen()};
  topology->launcher = facts.launcher;
  topology->rank = static_cast<uint32_t>(*facts.rank);
  topology->world_size = static_cast<uint32_t>(*facts.world);
  topology->node = static_cast<uint32_t>(*facts.node);
  topology->nodes = static_cast<uint32_t>(*facts.nodes);
  topology->local_rank = static_cast<uint32_t>(*facts.local_rank);
  topology->local_size = static_cast<uint32_t>(*facts.local_size);
  return DC_OK;
}

}  // namespace ddpcache
