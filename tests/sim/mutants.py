"""Mutants of the brain: each is one file of launcher/core with one thing wrong. A simulation that lets one through does
not test what it says.

    mutants.py names                        one mutant a line: its name and its file
    mutants.py write NAME SOURCE_DIR OUT    writes the mutated file; fails when the text to replace is not there once
    mutants.py check BIN_DIR                runs sim_mutant_NAME of each: every one must be caught
"""
import os
import re
import subprocess
import sys

# Within so many each must be caught; most need fewer than a hundred of the first seed. One that a seed misses for long
# another may catch soon.
SCHEDULES, SEEDS = 30000, (1, 2, 3)

# name: (file in launcher/core, text, replacement)
MUTANTS = {
    "survivors_on_their_way_inspected": (
        "job_machine_members.cc", "if (armed_.contains(Deadline::join) && !met_ &&", "if (false &&"),
    "sweep_not_awaited": (
        "job_machine_disruption.cc",
        "if (roster_.counts().sweeping > 0) return;",
        ""),
    "budget_without_limit": (
        "restart_budget.cc", "{ return used(now) < limit_.count; }", "{ return used(now) >= 0; }"),
    "survivors_reversed": (
        "job_machine_disruption.cc",
        "return std::pair(!a->has_state, a->seat.rank) < std::pair(!b->has_state, b->seat.rank);",
        "return std::pair(!a->has_state, b->seat.rank) < std::pair(!b->has_state, a->seat.rank);"),
    "newcomers_before_survivors": (
        "job_machine_disruption.cc",
        "return std::pair(!a->has_state, a->seat.rank) < std::pair(!b->has_state, b->seat.rank);",
        "return std::pair(a->has_state, a->seat.rank) < std::pair(b->has_state, b->seat.rank);"),
    "workers_of_a_lost_host_live": (
        "job_machine_hosts.cc",
        "if (world_.at(id).state == WorkerState::finished) continue;",
        "if (world_.at(id).state != WorkerState::ordered) continue;"),
    "no_kill_after_the_grace": (
        "job_machine_end.cc", "return kill_now(true);",
        "return arm(Deadline::grace, now_ + seconds(60));"),
    "slot_of_a_dismissed_is_free": (
        "job_machine_rooms.cc", "room.busy.push_back(world_.at(id).seat.slot);", ";"),
    "minimum_ignored": ("replan.cc", "if (slots < least) return 0;", "if (slots <= 0) return 0;"),
    "maximum_ignored": ("replan.cc", "return std::min(most, std::max(", "return std::min(most + 1, std::max("),
    "survivors_wait_for_each_other": (
        "job_machine_disruption.cc", ".free_survivors = survivors_stay_ && !(disruption.planned && all_there)});", "});"),
    "nobody_is_freed_as_planned": (
        "job_machine_disruption.cc", "!(disruption.planned && all_there)});", "!disruption.planned});"),
    "planned_changes_tear_ranks_out": (
        "job_machine_disruption.cc", "survivors_stay_ && !(disruption.planned && all_there)});", "survivors_stay_});"),
    "hosts_that_come_cost_what_was_loaded": (
        "job_machine_worlds.cc", "return {grows && !loads, size > 0", "return {grows, size > 0"),
    "a_world_that_never_meets_never_grows": (
        "job_machine_worlds.cc", "spec_.compat == Compat::horovod && armed_.contains(Deadline::steady);",
        "spec_.compat == Compat::horovod;"),
    "generation_used_again": (
        "job_machine_worlds.cc", "const Generation next{world_.generation().value + 1};",
        "const Generation next{std::max(1u, world_.generation().value)};"),
    "old_generation_told": (
        "job_machine.cc", "starts.push_back({id, world_.generation(), seat.rank,",
        "starts.push_back({id, Generation{std::max(1u, world_.generation().value - 1)}, seat.rank,"),
    "leaving_is_charged": (
        "job_machine_hosts.cc", "told ? CauseKind::host_lost : CauseKind::hosts_left, expected, event.host,",
        "told ? CauseKind::host_lost : CauseKind::hosts_left, false, event.host,"),
    "nobody_is_pardoned": ("roster.cc", "if (held >= smallest_world()) break;", "break;"),
    "end_before_agents_are_gone": (
        "job_machine_end.cc", "if (roster_.count(HostState::gone) < static_cast<int>(roster_.size())) return;",
        "if (roster_.count(HostState::dialling) > 0) return;"),
    "ordered_not_awaited": (
        "worker.cc", "return condemned() || member;", "return condemned();"),
    "newcomers_that_load_are_waited_for": (
        "job_machine_newcomers.cc", "if (missing(least_size())) out.push_back(worker);",
        "if (missing(size)) out.push_back(worker);"),
    "newcomers_are_forgotten": (
        "job_machine_newcomers.cc", "if (takes_newcomers() && newcomers_from_ <= now_)",
        "if (takes_newcomers() && newcomers_from_ <= now_ && world_.newcomers().empty())"),
    "state_goes_with_its_hosts": (
        "job_machine_rooms.cc", "return holds && world_size_on(", "return there < 0 && holds && world_size_on("),
    "newcomers_never_back_off": (
        "job_machine_newcomers.cc", "backoff_after(++newcomers_failed_)", "backoff_after(1)"),
    "newcomers_cost_a_restart": (
        "job_machine_newcomers.cc", "  if (!as_well) newcomers_back_off();",
        "  if (!as_well) newcomers_back_off();\n  if (!as_well && restarts_.spend(now_)) ++verdict_.restarts;"),
    "newcomers_given_up_for_good": (
        "job_machine_newcomers.cc", "  newcomers_given_up_ = false;\n", ""),
    "horovods_newcomers_cost_a_restart": (
        "job_machine_disruption.cc", "question.free = spared_ = newcomers_failed(disruption);",
        "spared_ = newcomers_failed(disruption);"),
    "horovods_survivors_wait_for_a_host_that_goes": (
        "job_machine_worlds.cc", "if (only_newcomers_leave()) disrupt(describe_change(false, true));", ""),
    "horovods_newcomers_live_on_within_init": (
        "job_machine_disruption.cc", "if (worker.member && worker.alive() && !worker.has_state)", "if (false)"),
    "newcomers_have_the_rank_of_others": (
        "job_machine_newcomers.cc", "(size > there || newcomers_have_taken_ranks())", "size > there"),
    "late_newcomers_are_not_ended": (
        "job_machine_newcomers.cc", "if (!late.empty()) act(SignalWorkers{SIGKILL, false, std::move(late)});", ""),
    "newcomers_beside_a_new_world": (
        "job_machine_newcomers.cc", "(phase_ == Phase::cooling && staying().empty())", "false"),
    "nobody_grows_after_a_rest": (
        "job_machine_newcomers.cc", "enter(Phase::cooling);\n  consider_change();",
        "enter(Phase::cooling);\n  order_newcomers();"),
    "dismissed_not_started_ends_the_world": (
        "job_machine_workers.cc", "      if (!worker->member) return slot_is_free();\n", ""),
    "newcomers_may_load_for_ever": (
        "job_machine_newcomers.cc", "if (next && world_stands())", "if (next && false)"),
    "newcomers_outlive_their_host": (
        "job_machine_newcomers.cc", "if (!none && usable(host, pardoned) && fits) continue;",
        "if (!none && fits) continue;"),
    "healthy_rank_for_a_spare": (
        "job_machine_worlds.cc", "size = std::max(size, std::min(static_cast<int>(alive.size()), most_size()));", ";"),
    "replacements_are_free": (
        "restart_policy.cc", "return workers_.contains(worker);", "static_cast<void>(worker); return true;"),
    "hosts_are_free_for_ever": (
        "restart_policy.cc", "if (question.lost && hosts_.erase(*question.lost) == 0) return;", "if (question.lost) return;"),
    "dismissed_have_finished": (
        "job_machine_leavers.cc",
        "if (!unfinished_) unfinished_ = Disruption{.cause = CauseKind::hosts_left, .planned = true};", ""),
    "healthy_hosts_given_up": (
        "job_machine_late.cc", "if (!worker.awaited() || !worker.killed()) continue;",
        "if (!worker.awaited() && worker.state != WorkerState::exited) continue;"),
    "late_hosts_given_up": (
        "job_machine_late.cc", "const auto again = late_.look_again(host, due, limit, now_);",
        "const auto again = late_.look_again(host, due - seconds(60), limit, now_);"),
    "hosts_unlisted_between_generations_take_the_state": (
        "job_machine_hosts.cc", " || has_live_members(index))", ")"),
    "deadlines_outlive_their_phase": (
        "job_machine.cc", "if (!belongs(deadline, next)) disarm(deadline);", "static_cast<void>(deadline);"),
    "late_output_is_a_stuck_host": (
        "job_machine_late.cc", "if (!roster_.at({i}).sweeping) continue;",
        "if (!roster_.at({i}).sweeping && world_.all_members(WorkerState::finished)) continue;"),
    "progress_forgives_nothing": (
        "job_machine_members.cc", "restarts_.progressed();", ""),
    "time_forgives_nothing": (
        "job_machine_end.cc", "restarts_.proved();", ""),
    "hosts_that_take_turns_are_not_slowed_down": (
        "job_machine_disruption.cc", "(!culprit_rests || roster_.ledger().several_rested_lately(now_))", "!culprit_rests"),
    "back_off_after_a_plan": (
        "job_machine_disruption.cc", "if (blaming_ && (!culprit_rests || roster_.ledger().several_rested_lately(now_)) && !spared_)",
        ""),
    "victims_are_blamed": (
        "outcome.cc", "[](const Failure& it) { return !it.lost_peer; }", "[](const Failure&) { return true; }"),
    "sudden_deaths_wait_their_turn": (
        "outcome.cc", "if (is_sudden(failures[first].status)) return first;", "return first;"),
    "clocks_say_who_ended_it": (
        "job_machine_workers.cc", "if (!worker.condemned()) return false;",
        "if (worker.condemned()) return event.at + event.error >= ending_.drains_since();"),
    "cause_is_waited_for_without_end": (
        "job_machine_end.cc", "case Deadline::cause: return cause_is_known();", "case Deadline::cause: return;"),
    "cause_comes_too_late": (
        "job_machine_workers.cc", "if (armed_.contains(Deadline::cause) && !cause_may_follow(worker)) return cause_is_known();", ""),
    "plans_hide_failures": (
        "job_machine_disruption.cc",
        "if (disruption.kind != Outcome::Kind::host_lost || disruption.planned) return cause_is_known();", ""),
    "loaders_are_killed": (
        "job_machine_members.cc", "if (!worker.has_state && (spec_.elastic.hang_timeout || now_ < until)) {",
        "if (false) {"),
    "told_members_stay": ("job_machine_leavers.cc", "(worker.fate == Fate::asked_to_leave || roster_", "(roster_"),
    "grace_of_dismissed_forgotten": (
        "job_machine_leavers.cc", "arm(Deadline::leave, std::max(now_, *next));", ""),
    "grace_of_one_is_that_of_all": (
        "job_machine_leavers.cc", "if (!worker.leaves_by || *worker.leaves_by > now_) continue;", ""),
    "grace_begins_again": (
        "job_machine_leavers.cc", "if (!it.leaves_by || *it.leaves_by <= now_) it.leaves_by = now_ + time;",
        "it.leaves_by = now_ + time;"),
    "survivors_back_off": (
        "job_machine_disruption.cc", "tell(notice::BackingOff{wait, others_go_on}); if (!others_go_on)",
        "tell(notice::BackingOff{wait, false}); if (true)"),
}


def squeezed(text):
    """Formatting moves line ends about: any run of blanks is as good as any other."""
    return r"\s*".join(re.escape(part) for part in re.findall(r"\w+|[^\w\s]", text))


def write(name, source_dir, out):
    file, text, replacement = MUTANTS[name]
    with open(os.path.join(source_dir, "launcher/core", file), encoding="utf-8") as source:
        content = source.read()
    mutated, count = re.subn(squeezed(text), lambda _: replacement, content)
    if count != 1:
        sys.exit(f"mutant {name}: its text is {count} times in {file}, not once: bring tests/sim/mutants.py up to date")
    with open(out, "w", encoding="utf-8") as target:
        target.write(mutated)


def caught(binary):
    """What was said against the mutant, or None and the last output."""
    for seed in SEEDS:
        run = subprocess.run([binary, "--seed", str(seed), "--schedules", str(SCHEDULES), "--no-shrink"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        found = re.search(r"^schedule (\d+) of seed \d+ fails: (.*)", run.stdout, re.M)
        if found:
            return f"schedule {found.group(1)} of seed {seed}: {found.group(2)}", run.stdout
        if run.returncode < 0:
            return f"died by signal {-run.returncode}", run.stdout
    return None, run.stdout


def check(bin_dir):
    uncaught = []
    for name in MUTANTS:
        verdict, output = caught(os.path.join(bin_dir, "sim_mutant_" + name))
        if verdict:
            print(f"{name}: {verdict}")
        else:
            uncaught.append(name)
            print(f"{name}: NOT CAUGHT by {SCHEDULES} schedules of each of the seeds {SEEDS}\n{output}")
    return 1 if uncaught else 0


def main():
    match sys.argv[1:]:
        case ["names"]:
            print("\n".join(f"{name} {file}" for name, (file, _, _) in MUTANTS.items()))
        case ["write", name, source_dir, out]:
            write(name, source_dir, out)
        case ["check", bin_dir]:
            return check(bin_dir)
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
