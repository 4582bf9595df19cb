// The layout of a job, as launchers describe it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "topology.hpp"

namespace ddpcache {
namespace {

using Variables = std::map<std::string, std::string>;

Status detect(const Variables &variables, dc_topology *topology) {
  return detect_topology(
      [&](const char *name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      topology);
}

struct Expected {
  int32_t launcher;
  uint32_t rank, world_size, node, nodes, local_rank, local_size;
};

void expect_layout(const Variables &variables, const Expected &expected) {
  dc_topology topology = {};
  const Status status = detect(variables, &topology);
  ASSERT_EQ(status.code(), DC_OK) << status.message();
  EXPECT_EQ(topology.launcher, expected.launcher);
  EXPECT_EQ(topology.rank, expected.rank);
  EXPECT_EQ(topology.world_size, expected.world_size);
  EXPECT_EQ(topology.node, expected.node);
  EXPECT_EQ(topology.nodes, expected.nodes);
  EXPECT_EQ(topology.local_rank, expected.local_rank);
  EXPECT_EQ(topology.local_size, expected.local_size);
}

// The message begins with what is wrong and lists every variable that was found.
void expect_refused(const Variables &variables, const std::string &fault) {
  dc_topology topology = {};
  const Status status = detect(variables, &topology);
  ASSERT_EQ(status.code(), DC_ERROR_TOPOLOGY) << fault;
  EXPECT_EQ(status.message().substr(0, fault.size()), fault);
  for (const auto &[name, value] : variables) {
    EXPECT_NE(status.message().find(name + "=" + value), std::string::npos) << status.message();
  }
  EXPECT_EQ(topology.world_size, 0u) << "nothing is written";
}

const Variables torchrun = {{"RANK", "5"},       {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"},
                            {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"}};
const Variables slurm = {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"}, {"SLURM_NNODES", "2"}, {"SLURM_TASKS_PER_NODE", "4(x2)"}};

Variables with(Variables variables, const Variables &more) {
  for (const auto &[name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, std::initializer_list<const char *> names) {
  for (const char *name : names) variables.erase(name);
  return variables;
}

TEST(Topology, IsOneProcessWithoutVariables) { expect_layout({}, {DC_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1}); }

TEST(Topology, IgnoresALaunchersLeftOvers) {
  // In a Slurm allocation whose shell srun has not started; a node number for a launcher that has not run yet.
  expect_layout({{"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}, {"SLURM_TASKS_PER_NODE", "4,4"}, {"NODE_RANK", "0"}},
                {DC_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1});
}

TEST(Topology, ReadsTorchrun) {
  const Expected expected = {DC_LAUNCHER_TORCHRUN, 5, 8, 1, 2, 1, 4};
  expect_layout(torchrun, expected);
  expect_layout(without(torchrun, {"GROUP_RANK", "GROUP_WORLD_SIZE"}), expected);
  expect_layout(without(torchrun, {"LOCAL_WORLD_SIZE"}), expected);
  expect_layout(without(torchrun, {"LOCAL_RANK"}), expected);
  expect_layout(with(torchrun, {{"NODE_RANK", "0"}}), expected);  // torchrun has renumbered the nodes
}

TEST(Topology, ReadsLightning) {
  // Its launcher on one machine, and on two whose counts the user has set.
  expect_layout({{"NODE_RANK", "0"}, {"LOCAL_RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}},
                {DC_LAUNCHER_LIGHTNING, 2, 3, 0, 1, 2, 3});
  expect_layout({{"NODE_RANK", "1"}, {"LOCAL_RANK", "2"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}},
                {DC_LAUNCHER_LIGHTNING, 6, 8, 1, 2, 2, 4});
}

TEST(Topology, ReadsOpenMpi) {
  expect_layout({{"OMPI_COMM_WORLD_RANK", "6"},
                 {"OMPI_COMM_WORLD_SIZE", "8"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
                {DC_LAUNCHER_OPEN_MPI, 6, 8, 1, 2, 2, 4});
}

TEST(Topology, ReadsMpich) {
  expect_layout({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
                {DC_LAUNCHER_MPI, 3, 4, 1, 2, 1, 2});
}

TEST(Topology, ReadsSlurm) {
  const Expected expected = {DC_LAUNCHER_SLURM, 5, 8, 1, 2, 1, 4};
  expect_layout(slurm, expected);
  expect_layout(with(slurm, {{"SLURM_TASKS_PER_NODE", "4,4"}}), expected);
  expect_layout(without(slurm, {"SLURM_TASKS_PER_NODE"}), expected);
  expect_layout(without(slurm, {"SLURM_NNODES"}), expected);
  expect_layout(with(without(slurm, {"SLURM_NNODES", "SLURM_TASKS_PER_NODE"}), {{"SLURM_NTASKS_PER_NODE", "4"}}),
                expected);
  // Tasks dealt to the nodes in turn: rank 5 is the third of node 1.
  expect_layout(with(slurm, {{"SLURM_LOCALID", "2"}}), {DC_LAUNCHER_SLURM, 5, 8, 1, 2, 2, 4});
}

TEST(Topology, PrefersAStepsVariablesToItsJobs) {
  expect_layout(with(slurm, {{"SLURM_PROCID", "1"},
                             {"SLURM_NODEID", "0"},
                             {"SLURM_STEP_NUM_TASKS", "2"},
                             {"SLURM_STEP_NUM_NODES", "1"},
                             {"SLURM_STEP_TASKS_PER_NODE", "2"}}),
                {DC_LAUNCHER_SLURM, 1, 2, 0, 1, 1, 2});
}

TEST(Topology, TakesTheInnerOfNestedLaunchers) {
  // One torchrun a node under srun: Slurm sees two tasks, whose node numbers torchrun need not keep.
  expect_layout(with(torchrun, {{"SLURM_PROCID", "0"},
                                {"SLURM_NTASKS", "2"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_NODEID", "0"},
                                {"SLURM_NNODES", "2"},
                                {"SLURM_TASKS_PER_NODE", "1(x2)"}}),
                {DC_LAUNCHER_TORCHRUN, 5, 8, 1, 2, 1, 4});
  // A whole description is enough: what is uneven outside does not matter.
  expect_layout(with(torchrun, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}, {"SLURM_TASKS_PER_NODE", "2,1"}}),
                {DC_LAUNCHER_TORCHRUN, 5, 8, 1, 2, 1, 4});
}

TEST(Topology, CompletesAGroupFromAnotherThatAgrees) {
  expect_layout(with(slurm, {{"RANK", "5"}, {"WORLD_SIZE", "8"}}), {DC_LAUNCHER_TORCHRUN, 5, 8, 1, 2, 1, 4});
  expect_layout(with(slurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}), {DC_LAUNCHER_MPI, 5, 8, 1, 2, 1, 4});
  expect_refused(with(slurm, {{"RANK", "4"}, {"WORLD_SIZE", "8"}}),
                 "two launchers give this process the ranks 4 and 5 of 8");
}

TEST(Topology, KnowsThatAMasterOnTheLoopbackMeansOneNode) {
  for (const char *address : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    expect_layout({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", address}},
                  {DC_LAUNCHER_TORCHRUN, 2, 4, 0, 1, 2, 4});
  }
  expect_refused({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}},
                 "the number of ranks on each node is unknown");
}

TEST(Topology, OfOneRankNeedsNoMore) {
  expect_layout({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, {DC_LAUNCHER_TORCHRUN, 0, 1, 0, 1, 0, 1});
}

TEST(Topology, RefusesWhatIsUnknown) {
  expect_refused({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "the number of ranks on each node is unknown");
  expect_refused({{"RANK", "1"}}, "the number of ranks is unknown");
  expect_refused({{"LOCAL_RANK", "0"}}, "the number of ranks is unknown");
  expect_refused({{"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
                 "the number of this node is unknown");
  expect_refused({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}},
                 "this process's rank on its node is unknown");
  expect_refused({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
                 "the number of ranks on each node is unknown");
  // Ranks dealt in turn, without a node number to say so.
  expect_refused({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
                 "the node of this process is unknown");
}

TEST(Topology, RefusesContradictions) {
  expect_refused(with(torchrun, {{"RANK", "8"}}), "rank 8 (of 8), node 1 (of 2) or local rank 1 (of 4) is too large");
  expect_refused(with(torchrun, {{"LOCAL_RANK", "4"}}),
                 "rank 5 (of 8), node 1 (of 2) or local rank 4 (of 4) is too large");
  expect_refused(with(torchrun, {{"GROUP_RANK", "2"}}),
                 "rank 5 (of 8), node 2 (of 2) or local rank 1 (of 4) is too large");
  expect_refused(with(torchrun, {{"GROUP_RANK", "0"}}), "rank 5 is not local rank 1 of node 0");
  expect_refused(with(torchrun, {{"GROUP_WORLD_SIZE", "3"}}), "3 nodes of 4 ranks each are not 8 ranks");
  expect_refused(with(slurm, {{"SLURM_TASKS_PER_NODE", "4(x3)"}}), "SLURM_TASKS_PER_NODE lists 3 nodes and not 2");
  expect_refused(with(slurm, {{"SLURM_NTASKS", "9"}}), "9 ranks are not a multiple of 4 on each node");
  expect_refused(with(torchrun, {{"LOCAL_WORLD_SIZE", "0"}}), "8 ranks are not a multiple of 0 on each node");
  expect_refused(with(without(torchrun, {"LOCAL_RANK"}), {{"GROUP_RANK", "1"}, {"RANK", "3"}}),
                 "rank 3 is not on node 1");
}

TEST(Topology, RefusesUnevenNodes) {
  expect_refused(with(slurm, {{"SLURM_TASKS_PER_NODE", "5,3"}}),
                 "SLURM_TASKS_PER_NODE gives the nodes different numbers of processes");
  expect_refused(with(slurm, {{"SLURM_TASKS_PER_NODE", "4(x2),3"}}),
                 "SLURM_TASKS_PER_NODE gives the nodes different numbers of processes");
  expect_refused(with(without(slurm, {"SLURM_TASKS_PER_NODE"}), {{"SLURM_NTASKS", "7"}}),
                 "7 processes cannot be spread evenly over 2 nodes");
  expect_refused(with(torchrun, {{"LOCAL_WORLD_SIZE", "3"}}), "8 ranks are not a multiple of 3 on each node");
}

TEST(Topology, RefusesWhatIsNoNumber) {
  for (const char *value : {"", " 5", "5 ", "-1", "+5", "0x5", "five", "16777217", "99999999999999999999"}) {
    expect_refused(with(torchrun, {{"RANK", value}}), "RANK is not a number of 0..16777216");
  }
  for (const char *value : {"", "4(x2", "4x2", "(x2)", "4(x)", "4(x2),", ",4", "4(y2)", "4()", ")", "4(x2)3"}) {
    Variables variables = with(slurm, {{"SLURM_TASKS_PER_NODE", value}});
    dc_topology topology = {};
    EXPECT_EQ(detect(variables, &topology).code(), DC_ERROR_TOPOLOGY) << "'" << value << "'";
  }
}

TEST(Topology, RefusesMoreRanksThanThereCanBe) {
  const Variables variables = {{"SLURM_PROCID", "1"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_NODEID", "0"},
                               {"SLURM_NNODES", "16777216"},
                               {"SLURM_NTASKS_PER_NODE", "256"}};  // 2^32, whose low 32 bits are 0
  expect_refused(variables, "4294967296 ranks are more than 16777216");
}

TEST(TopologyInterface, ReadsTheEnvironmentAndChecksItsArguments) {
  for (const char *name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                           "NODE_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  dc_topology topology;
  std::memset(&topology, 0xEE, sizeof topology);
  topology.struct_size = sizeof topology;
  dc_error error = {};
  ASSERT_EQ(dc_topology_detect(&topology, &error), DC_OK) << error.message;
  EXPECT_EQ(topology.nodes * topology.local_size, 1u);

  for (const auto &[name, value] : torchrun) setenv(name.c_str(), value.c_str(), 1);
  ASSERT_EQ(dc_topology_detect(&topology, nullptr), DC_OK);
  EXPECT_EQ(topology.struct_size, sizeof topology);
  EXPECT_EQ(topology.rank, 5u);
  EXPECT_EQ(topology.local_size, 4u);

  struct {
    dc_topology known;
    uint32_t more[2];
  } later;
  std::memset(&later, 0xEE, sizeof later);
  later.known.struct_size = sizeof later;
  ASSERT_EQ(dc_topology_detect(&later.known, nullptr), DC_OK);
  EXPECT_EQ(later.known.node, 1u);
  EXPECT_EQ(later.more[0] | later.more[1], 0u) << "what a later version added is 0";

  setenv("LOCAL_RANK", "7", 1);
  const dc_topology before = topology;
  EXPECT_EQ(dc_topology_detect(&topology, &error), DC_ERROR_TOPOLOGY);
  EXPECT_NE(std::string(error.message).find("LOCAL_RANK=7"), std::string::npos) << error.message;
  EXPECT_EQ(std::memcmp(&before, &topology, sizeof topology), 0);

  EXPECT_EQ(dc_topology_detect(nullptr, &error), DC_ERROR_ARGUMENT);
  EXPECT_STREQ(error.message, "topology is NULL");
  topology.struct_size = 4;
  EXPECT_EQ(dc_topology_detect(&topology, &error), DC_ERROR_ARGUMENT);
  for (const auto &[name, value] : torchrun) unsetenv(name.c_str());
}

}  // namespace
}  // namespace ddpcache
