// SPDX-License-Identifier: Apache-2.0
#include "app/run_report.hpp"

#include "app/text_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

namespace trimtab {
namespace {

using nlohmann::ordered_json;

std::size_t index(moe::ArmId arm) { return static_cast<std::size_t>(arm); }

ordered_json arm_document(const moe::ServiceReport& report, moe::ArmId arm) {
  return {{"tokens_per_s", report.tokens_per_s[index(arm)]},
          {"tokens_per_s_deviation", report.tokens_per_s_deviation[index(arm)]},
          {"imbalance_mean", report.imbalance_mean[index(arm)]}};
}

ordered_json block_document(const moe::BlockReport& block) {
  return {{"balancing", block.arm == moe::ArmId::on},
          {"first_forward", block.first_forward},
          {"forwards", block.num_forwards},
          {"tokens", block.tokens},
          {"seconds", block.seconds},
          {"imbalance", block.imbalance},
          {"epoch", block.epoch},
          {"slots_moved", block.slots_moved},
          {"bytes_moved", block.bytes_moved},
          {"stall_ms", block.stall_ms}};
}

ordered_json model_document(const moe::ServiceOptions& service) {
  const moe::ModelConfig& model = service.model;
  return {{"layers", model.num_layers},
          {"experts", model.num_experts},
          {"top_k", model.top_k},
          {"groups", model.num_groups},
          {"top_groups", model.top_groups},
          {"hidden", model.hidden},
          {"intermediate", model.intermediate},
          {"seed", service.text ? ordered_json() : ordered_json(model.seed)}};
}

/// Null where there was none.
ordered_json milliseconds(const std::optional<Clock::duration>& time) {
  if (!time) return nullptr;
  return std::chrono::duration<double, std::milli>(*time).count();
}

ordered_json engine_document(const moe::EngineCondition& engine) {
  return {{"state", to_string(engine.state)},
          {"epoch", engine.epoch},
          {"last_commit_age_ms", milliseconds(engine.last_commit_age)},
          {"failures", engine.failures},
          {"last_failure", engine.last_failure}};
}

ordered_json memory_document(const moe::MigrationBuffers& buffers) {
  return {{"staging_budget_bytes", buffers.staging_budget_bytes},
          {"staging_peak_bytes", buffers.staging_peak_bytes},
          {"workspace_bytes", buffers.workspace_bytes},
          {"transport_buffer_bytes", buffers.transport_buffer_bytes}};
}

ordered_json traffic_document(const moe::Traffic& traffic) {
  return {{"bytes_within_nodes", traffic.within_nodes}, {"bytes_between_nodes", traffic.between_nodes}};
}

void add_migration(ordered_json& document, const moe::ServiceOptions& service,
                   const moe::ServiceReport& report) {
  const moe::MigrationReport& migration = report.migration;
  document["rollbacks"] = ordered_json::array();
  for (const moe::Rollback& rollback : migration.rollbacks) {
    document["rollbacks"].push_back(
        {{"epoch", rollback.epoch.value()}, {"code", to_string(rollback.code)}, {"why", rollback.why}});
  }
  document["faults"] = ordered_json::array();
  for (std::size_t i = 0; i < service.faults.size(); ++i) {
    const moe::TransferFault& fault = service.faults[i];
    document["faults"].push_back(
        {{"kind", to_string(fault.action)}, {"at", fault.at}, {"struck", bool{migration.struck[i]}}});
  }
  document["engine"] = engine_document(migration.engine);
  document["memory"] = memory_document(migration.buffers);
}

std::string describe(const moe::TransferFault& fault, bool has_struck) {
  return fmt::format("fault      {} at transfer {}: {}\n", to_string(fault.action), fault.at,
                     has_struck ? "struck" : "not reached");
}

double megabytes(auto bytes) { return static_cast<double>(bytes) / 1e6; }

std::string traffic_text(const moe::ServiceTraffic& traffic) {
  return fmt::format(
      "traffic    {:.1f} MB between ranks of a node and {:.1f} MB between nodes for forwards, {:.1f} and "
      "{:.1f} MB "
      "for migrations\n",
      megabytes(traffic.forward.within_nodes), megabytes(traffic.forward.between_nodes),
      megabytes(traffic.migration.within_nodes), megabytes(traffic.migration.between_nodes));
}

std::string migration_text(const moe::ServiceOptions& service, const moe::ServiceReport& report) {
  const moe::MigrationReport& migration = report.migration;
  std::string text;
  for (std::size_t i = 0; i < service.faults.size(); ++i)
    text += describe(service.faults[i], migration.struck[i]);
  for (const moe::Rollback& rollback : migration.rollbacks) {
    text += fmt::format("rollback   epoch {} served on ({}): {}\n", rollback.epoch.value(),
                        to_string(rollback.code), rollback.why);
  }
  text += fmt::format(
      "memory     staging {:.1f} of {:.1f} MB, workspaces {:.1f} MB, transport buffers {:.1f} MB per rank\n",
      megabytes(migration.buffers.staging_peak_bytes), megabytes(migration.buffers.staging_budget_bytes),
      megabytes(migration.buffers.workspace_bytes), megabytes(migration.buffers.transport_buffer_bytes));
  if (service.mutant) {
    text += fmt::format("mutant     {}: {}\n", to_string(*service.mutant),
                        report.outputs_identical ? "NOT NOTICED" : "noticed, the outputs differ");
  }
  return text;
}

std::vector<std::int32_t> lost_ranks(const moe::ServiceOptions& service, const moe::DeathReport& death) {
  std::vector<std::int32_t> lost;
  for (Rank rank : ids<Rank>(service.topology.num_ranks())) {
    if (std::ranges::find(death.members, rank) == death.members.end()) lost.push_back(rank.value());
  }
  return lost;
}

/// Null in the document where nobody died.
ordered_json death_document(const moe::ServiceOptions& service, const moe::DeathReport& death) {
  const std::vector<std::int32_t> lost = lost_ranks(service, death);
  ordered_json members = ordered_json::array();
  for (Rank rank : death.members) members.push_back(rank.value());
  return {{"rank", lost.front()},
          {"lost", lost},
          {"members", members},
          {"forward", death.forward},
          {"recovery_ms", death.recovery_ms},
          {"experts_lost", death.experts_lost},
          {"bytes_recovered", death.bytes_recovered},
          {"tokens_taken_over", death.tokens_taken_over}};
}

std::string death_text(const moe::ServiceOptions& service, const moe::DeathReport& death) {
  return fmt::format(
      "death      rank {} in forward {}: {} ranks went on after {:.0f} ms, {} experts read back ({:.1f} MB), "
      "{} tokens taken over\n",
      fmt::join(lost_ranks(service, death), ", "), death.forward, death.members.size(), death.recovery_ms,
      death.experts_lost, megabytes(death.bytes_recovered), death.tokens_taken_over);
}

std::string yes_no(bool value) { return value ? "identical" : "DIFFERENT"; }

}  // namespace

ordered_json run_document(const moe::ServiceOptions& service, const moe::ServiceReport& report,
                          std::string_view transport) {
  ordered_json document;
  document["schema"] = "trimtab.run/1";
  document["transport"] = transport;
  document["ranks"] = service.topology.num_ranks();
  document["nodes"] = service.topology.num_nodes();
  document["slots"] = service.topology.num_slots();
  document["tokens_per_rank"] = service.tokens_per_rank;
  document["forwards"] = service.forwards();
  document["model"] = model_document(service);
  document["layout"] = service.layout == moe::WeightLayout::nz ? "nz" : "dense";
  document["mutant"] = service.mutant ? ordered_json(to_string(*service.mutant)) : ordered_json();
  document["outputs_identical"] = report.outputs_identical;
  document["off"] = arm_document(report, moe::ArmId::off);
  document["on"] = arm_document(report, moe::ArmId::on);
  document["speedup"] = report.speedup.mean;
  document["speedup_low"] = report.speedup.low;
  document["speedup_high"] = report.speedup.high;
  document["quads"] = service.num_quads;
  document["split"] = service.split_every > 0 ? "exact" : "even";
  document["splits"] = report.splits;
  document["migrations"] = report.migrations;
  document["rolled_back"] = report.rolled_back;
  document["last_problem"] = report.last_problem;
  add_migration(document, service, report);
  document["epochs"] = report.epochs;
  document["slots_moved"] = report.slots_moved;
  document["bytes_moved"] = report.bytes_moved;
  document["bytes_copied"] = report.bytes_copied;
  document["tokens_on_moved_slots"] = report.rows_on_moved_slots;
  document["unchanged_slots_written"] = report.unchanged_slots_written;
  document["windows_refused"] = report.windows_refused;
  document["reference_checked"] = report.reference_checked;
  document["time_ms"] = {{"record", report.record_ms},
                         {"split", report.split_ms},
                         {"plan", report.plan_ms},
                         {"migrate", report.migrate_ms},
                         {"stall", report.stall_ms}};
  document["traffic"] = {{"forward", traffic_document(report.traffic.forward)},
                         {"migration", traffic_document(report.traffic.migration)}};
  document["text"] = report.text ? text_document(service, *report.text) : ordered_json();
  document["death"] = report.death ? death_document(service, *report.death) : ordered_json();
  document["blocks"] = ordered_json::array();
  for (const moe::BlockReport& block : report.blocks) document["blocks"].push_back(block_document(block));
  return document;
}

std::string run_text(const moe::ServiceOptions& service, const moe::ServiceReport& report,
                     std::string_view transport) {
  const moe::ModelConfig& model = service.model;
  const auto& rate = report.tokens_per_s;
  const auto& spread = report.tokens_per_s_deviation;
  std::string text;
  text += fmt::format(
      "service    {} ranks on {} node{} over {}, {} slots per layer; {} forwards of {} tokens per rank\n",
      service.topology.num_ranks(), service.topology.num_nodes(),
      service.topology.num_nodes() == 1 ? "" : "s", transport, service.topology.num_slots(),
      service.forwards(), service.tokens_per_rank);
  text += fmt::format("model      {} layers x {} experts, top-{}, hidden {}, intermediate {}\n",
                      model.num_layers, model.num_experts, model.top_k, model.hidden, model.intermediate);
  text += fmt::format("tokens/s   off {:.0f} +- {:.0f}, on {:.0f} +- {:.0f}\n", rate[0], spread[0], rate[1],
                      spread[1]);
  text += fmt::format("speed-up   {:.3f}, 95 % interval {:.3f} to {:.3f} over {} ABBA quads\n",
                      report.speedup.mean, report.speedup.low, report.speedup.high, service.num_quads);
  text += fmt::format("imbalance  off {:.3f}, on {:.3f} (max / mean rank load; 1 is perfect)\n",
                      report.imbalance_mean[0], report.imbalance_mean[1]);
  text += fmt::format(
      "migration  {} migrations in {} epochs, {} slots and {:.1f} MB moved between ranks, {} rolled back\n",
      report.migrations, report.epochs, report.slots_moved, static_cast<double>(report.bytes_moved) / 1e6,
      report.rolled_back);
  text += traffic_text(report.traffic);
  if (report.text) text += text_text(*report.text);
  if (service.split_every > 0)
    text += fmt::format("shares     exact, changed {} times besides\n", report.splits);
  if (report.death) text += death_text(service, *report.death);
  text += migration_text(service, report);
  const bool is_told = !report.migration.rollbacks.empty();
  if (!report.last_problem.empty() && !is_told) text += fmt::format("problem    {}\n", report.last_problem);
  text += fmt::format(
      "time       record {:.1f} ms, split {:.1f} ms, plan {:.1f} ms, migrate {:.1f} ms, of which stall "
      "{:.1f} ms\n",
      report.record_ms, report.split_ms, report.plan_ms, report.migrate_ms, report.stall_ms);
  text += fmt::format(
      "outputs    {}: off, on and the reference ({} {}); {} assignments on moved slots, {} unchanged "
      "slots written\n",
      yes_no(report.outputs_identical), report.reference_checked, service.text ? "requests" : "batches",
      report.rows_on_moved_slots, report.unchanged_slots_written);
  return text;
}

}  // namespace trimtab
