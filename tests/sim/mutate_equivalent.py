"""Mutants that change nothing that anybody could see, each with the reason: mutate.py does not draw them."""

# Two statements in the other order, by (file in launcher/core, the first one, the second one): why neither needs the
# other one to be done before. Blanks as they come.
SWAPS = {
    "One writes the deadline down and the other orders it; neither looks at the other.": [
        ("job_machine.cc", "act(Arm{deadline, at});", "armed_.insert(deadline);"),
    ],
    "An order names the host alone, and what is written down of it here is not read by the other.": [
        ("job_machine.cc", "act(AbandonHost{event.host});", "roster_.become(event.host, HostState::gone);"),
        ("job_machine_end.cc", "act(StopHost{{i}});", "roster_.become({i}, HostState::stopping);"),
        ("job_machine_hosts.cc", "roster_.become(index, HostState::dialling);", "act(DialHost{index});"),
        ("job_machine_hosts.cc", "act(AbandonHost{index});", "roster_.change(index, [](HostEntry& it) { it.sweeping = it.inspecting = false; });"),
        ("job_machine_hosts.cc", "roster_.could_not_be_reached(event.host, now_);", "act(AskForHosts{});"),
        ("job_machine_hosts.cc", "act(StopHost{index});", "roster_.become(index, HostState::stopping);"),
        ("job_machine_disruption.cc", "roster_.change({i}, [](HostEntry& it) { it.sweeping = true; });", "act(Sweep{{i}, world_.generation(), {}});"),
    ],
    "Other fields of the host are changed than are read: its note there, its state and its retries here.": [
        ("job_machine.cc", "roster_.become(event.host, HostState::gone);", "tell_host_error(event.host, event.error);"),
        ("job_machine.cc", "tell_host_error(event.host, event.error);", "roster_.could_not_be_reached(event.host, now_);"),
    ],
    "Two containers of which neither is read by the other statement.": [
        ("job_machine.cc", "begin.workers.push_back(id);", "starts.push_back({id, world_.generation(), seat.rank, shares.of(seat)});"),
        ("job_machine_worlds.cc", "survivors.push_back(worker->seat);", "taken.emplace(worker->seat.host, worker->seat.slot);"),
        ("restart_policy.cc", "workers_.clear();", "hosts_.clear();"),
        ("roster.cc", "hosts_.push_back({.host = host, .listed = listed});", "known_.emplace(hosts::host_key(host), index);"),
    ],
    "When dismissed members must be gone does not depend on which hosts have shrunk.": [
        ("job_machine.cc", "await_dismissed();", "roster_.fits();"),
    ],
    "The report's errors and the host are two things; the index is known already.": [
        ("job_machine_end.cc", "verdict_.host_errors.emplace_back(HostIndex{i}, error);", "give_up_host({i});"),
    ],
    "They change other fields of the host, and neither reads what the other changes.": [
        ("job_machine_hosts.cc", "roster_.change(index, [](HostEntry& it) { it.sweeping = it.inspecting = false; });", "roster_.left(index, now_);"),
        ("job_machine_end.cc", "give_up_host({i});", "roster_.could_not_be_reached({i}, now_);"),
    ],
    "The sum is not told, and what is told is of this event alone.": [
        ("job_machine_end.cc", "verdict_.leftovers += event.leftovers;", "tell_leftovers(event.host, event.leftovers, event.names, event.killed);"),
        ("job_machine_disruption.cc", "verdict_.leftovers += event.leftovers;", "tell_leftovers(event.host, event.leftovers, {}, event.killed);"),
    ],
    "A phase is entered without a look at the verdict.": [
        ("job_machine_end.cc", "tell_time_of_end();", "enter(Phase::closing);"),
    ],
    "The policy's restart and the verdict's count of causes do not read each other.": [
        ("job_machine_finish.cc", "restart_paid(owed->since);", "count_cause(*owed);"),
    ],
    "A host's place in the list, its slots and its ledger are three things; none is read by the other statement.": [
        ("job_machine_hosts.cc", "roster_.list(index);", "roster_.forgive(index);"),
        ("job_machine_hosts.cc", "roster_.forgive(index);", "slots_changed(index);"),
    ],
    "Whom a message names is its rank, host and pid, which a fate does not change.": [
        ("job_machine_members.cc", "world_.doom(id, Fate::condemned);", "late.push_back(who(worker));"),
        ("job_machine_worlds.cc", "had_not_finished_.push_back(who(world_.at(id)));", "world_.change(id, [](Worker& worker) { worker.member = false; });"),
    ],
    "By when a worker must have left and its fate are two fields, and neither change reads the other.": [
        ("job_machine_leavers.cc", "world_.doom(id, Fate::condemned);", "give_time_to_leave(id, spec_.grace);"),
    ],
    "The slot is the host's and the fate the worker's; the worker's place is read by both and changed by none.": [
        ("job_machine_members.cc", "roster_.change(worker->seat.host, [](HostEntry& it) { ++it.stopped_slots; });", "world_.doom(worker->id, Fate::condemned);"),
    ],
    "An id is put on a list, and its fate is another thing.": [
        ("job_machine_disruption.cc", "doomed.push_back(id);", "world_.doom(id, Fate::killed);"),
        ("job_machine_newcomers.cc", "late.push_back(id);", "world_.doom(id, Fate::killed);"),
        ("job_machine_disruption.cc", "world_.doom(id, Fate::killed);", "late.push_back(id);"),
        ("job_machine_worlds.cc", "world_.doom(id, Fate::asked_to_leave);", "announce.leaving.push_back(id);"),
        ("job_machine_worlds.cc", "world_.doom(id, Fate::condemned);", "act(Dismiss{id});"),
        ("job_machine_worlds.cc", "late.push_back(id);", "world_.doom(id, Fate::killed);"),
    ],
    "Both are counted after each change, and no change reads what the other one sets.": [
        ("job_machine_worlds.cc", "world_.change(id, [](Worker& worker) { worker.member = false; });", "world_.doom(id, Fate::condemned);"),
    ],
    "Who was dismissed is counted whether or not the generation is over, and entering a phase does not ask.": [
        ("job_machine_disruption.cc", "await_dismissed();", "world_.end();"),
        ("job_machine_disruption.cc", "world_.end();", "enter(Phase::cooling);"),
    ],
    "The time that restarts took and what became of ranks are two parts of the verdict.": [
        ("job_machine_verdict.cc", "count_lost_time(); // of a restart that did not come up", "count_others(world_, verdict_);"),
    ],
    "A worker that is finished counts nowhere by which a host is released.": [
        ("job_machine_workers.cc", "world_.forget(event.worker);", "release_unused();"),
    ],
    "One says how it is to end, and the other until when.": [
        ("job_machine_worlds.cc", "world_.doom(id, Fate::asked_to_leave);", "give_time_to_leave(id, spec_.grace);"),
    ],
    "What a world that runs makes of its hosts releases those that serve nobody, too, and one is released once.": [
        ("job_machine.cc", "release_unused();", "after_worker_change();"),
    ],
    "What has just been added is not older than the window.": [
        ("host_ledger.cc", "std::erase_if(entry.workers, [now](Instant at) { return now - at > window; });", "entry.workers.push_back(now);"),
    ],
    "The slot was read before, and the room left on the host is another variable.": [
        ("replan.cc", "taken.insert({seat.host, used});", "--it->second;"),
    ],
    "Two fields of a seat that is not read between.": [
        ("replan.cc", "seat.host = slot.first;", "seat.slot = slot.second;"),
    ],
    "A host is counted by what it is, not by its place in the list.": [
        ("roster.cc", "order_.push_back(index);", "change(index, [](HostEntry& entry) { entry.listed = true, entry.kept = false; });"),
    ],
    "Sums and sets that do not read each other: each is changed by the worker or host alone.": [
        ("roster.cc", "keep(others_, entry.listed && !is_plain);", "keep(unwanted_, (!entry.listed || entry.leaving) && entry.state != HostState::gone);"),
        ("world.cc", "on_host(seat.host).workers.push_back(last_);", "count(worker, +1);"),
        ("world.cc", "count(it->second, -1);", "std::erase(on_host(it->second.seat.host).workers, id);"),
        ("world.cc", "host.live_members += worker.member && unfinished ? by : 0;", "host.unfinished += unfinished ? by : 0;"),
        ("world.cc", "keep(failed_, worker.member && worker.failure);", "keep(dismissed_, !worker.member && worker.state == WorkerState::spawned);"),
        ("world.cc", "add(counts.alive, alive);", "add(counts.to_end, alive && worker.condemned());"),
        ("world.cc", "add(counts.to_end, alive && worker.condemned());", "add(counts.dismissed_killed, !worker.member && worker.state == WorkerState::spawned && worker.killed());"),
        ("world.cc", "counts.members_in[static_cast<std::size_t>(worker.state)] += by;", "add(counts.survivors, worker.survives());"),
        ("world.cc", "add(counts.survivors, worker.survives());", "add(counts.survivors_that_wait, worker.survives() && worker.waits);"),
        ("world.cc", "add(counts.survivors_that_wait, worker.survives() && worker.waits);", "add(counts.members_that_wait, alive && worker.waits);"),
        ("world.cc", "add(counts.members_that_wait, alive && worker.waits);", "add(counts.awaited_members, worker.awaited());"),
        ("world.cc", "add(counts.awaited_members, worker.awaited());", "add(counts.took_part, worker.joined || worker.has_state);"),
        ("world.cc", "add(counts.took_part, worker.joined || worker.has_state);", "add(counts.ended_well, worker.ended_well());"),
        ("world.cc", "add(counts.ended_well, worker.ended_well());", "add(counts.finished_badly, worker.state == WorkerState::finished && !worker.status.success());"),
        ("world.cc", "add(counts.finished_badly, worker.state == WorkerState::finished && !worker.status.success());", "add(counts.alive_without_failure, alive && !worker.failure);"),
        ("world.cc", "count(worker, +1, sum);", "unfinished[worker.seat.host.value] += worker.state != WorkerState::finished ? 1 : 0;"),
    ],
}

# Other lines, by (file, the line, the line with its fault): why it is the same.
LINES = {
    ("roster.cc", "if (belongs && by < 0) in.erase(index);", "if (belongs && by < 1) in.erase(index);"): "It is -1 or 1.",
}

EQUIVALENT = {(file, f"{first} {second}", f"{second} {first}"): why
              for why, some in SWAPS.items() for file, first, second in some} | LINES
