// The C interface over State and Elastic.
#include <string>

#include "comm/c_handles.h"
#include "comm/elastic.h"

using trainrun::comm::Failure;
using trainrun::comm::guarded;
using trainrun::comm::invalid;
using trainrun::comm::Outcome;

struct trc_state {
  trainrun::comm::State state;
};
struct trc_elastic {
  trainrun::comm::Elastic elastic;
  trc_world world;  // the one that was given out
};

trc_status trc_state_new(trc_state** state) {
  if (state == nullptr) return invalid("trc_state_new needs a place for the state");
  *state = nullptr;
  return guarded([&]() -> Outcome<void> {
    *state = new trc_state{};
    return {};
  });
}

void trc_state_free(trc_state* state) { delete state; }

trc_status trc_state_add(trc_state* state, const char* name, void* data, size_t bytes) {
  if (state == nullptr || name == nullptr) return invalid("a state and a name are needed");
  return guarded([&] { return state->state.add(name, data, bytes); });
}

trc_status trc_state_add_blob(trc_state* state, const char* name) {
  if (state == nullptr || name == nullptr) return invalid("a state and a name are needed");
  return guarded([&] { return state->state.add_blob(name); });
}

trc_status trc_state_set_blob(trc_state* state, const char* name, const void* data, size_t bytes) {
  if (state == nullptr || name == nullptr || (data == nullptr && bytes > 0))
    return invalid("a state, a name and bytes are needed");
  return guarded([&] {
    return state->state.set_blob(
        name, bytes == 0 ? std::string() : std::string(static_cast<const char*>(data), bytes));
  });
}

trc_status trc_state_get_blob(const trc_state* state, const char* name, const void** data, size_t* bytes) {
  if (state == nullptr || name == nullptr || data == nullptr || bytes == nullptr)
    return invalid("a state, a name and places for the answer are needed");
  const auto* blob = state->state.blob(name);
  if (blob == nullptr) return invalid("the state has no such blob");
  *data = blob->data();
  *bytes = blob->size();
  return TRC_OK;
}

trc_status trc_state_save(trc_state* state) {
  if (state == nullptr) return invalid("trc_state_save of no state");
  return guarded([&]() -> Outcome<void> {
    state->state.save();
    return {};
  });
}

trc_status trc_state_restore(trc_state* state) {
  if (state == nullptr) return invalid("trc_state_restore of no state");
  return guarded([&]() -> Outcome<void> {
    state->state.restore();
    return {};
  });
}

trc_status trc_state_commit(trc_state* state, trc_world* world) {
  const auto saved = trc_state_save(state);
  return saved == TRC_OK ? trc_check_host_updates(world) : saved;
}

trc_status trc_state_sync(trc_state* state, trc_world* world) {
  if (state == nullptr || world == nullptr) return invalid("a state and a world are needed");
  return guarded(world->group, [&] {
    return state->state.sync(world->world->group(), static_cast<int>(world->world->self().rank),
                             static_cast<int>(world->world->members().size));
  });
}

trc_status trc_check_host_updates(trc_world* world) {
  if (world == nullptr) return invalid("trc_check_host_updates in no world");
  return guarded(world->group, [&] { return world->world->check_host_updates(); });
}

int trc_should_stop(const trc_world* world) {
  return world != nullptr && world->group.home.here() && world->world->should_stop() ? 1 : 0;
}

trc_status trc_elastic_new(const trc_options* options, trc_elastic** elastic) {
  if (elastic == nullptr) return invalid("trc_elastic_new needs a place for the membership");
  *elastic = nullptr;
  return guarded([&]() -> Outcome<void> {
    auto place = trainrun::comm::environment_for(options);
    if (!place) return tl::unexpected(place.error());
    *elastic = new trc_elastic{trainrun::comm::Elastic(std::move(*place)), {nullptr, {nullptr}}};
    return {};
  });
}

void trc_elastic_free(trc_elastic* elastic) {
  if (elastic == nullptr) return;
  // What a work still runs with must stay.
  if (elastic->world.group.home.here() && elastic->world.close_lanes(trainrun::comm::works_at_the_end))
    delete elastic;
  else
    trainrun::comm::abandon(elastic);
}

trc_status trc_elastic_form(trc_elastic* elastic, trc_state* state, trc_status ended, trc_world** world) {
  if (elastic == nullptr || state == nullptr || world == nullptr)
    return invalid("a membership, a state and a place for the world are needed");
  *world = nullptr;
  return guarded(elastic->world.group, [&]() -> Outcome<void> {
    std::optional<Failure> last;
    if (ended != TRC_OK) {
      // Mostly the failure is this thread's last one, with all its words.
      last = trainrun::comm::last_failure();
      if (last->status != ended) {
        last = Failure{};
        last->status = ended;
        last->message = trc_status_name(ended);
      }
    }
    // They end with the generation, if that was a failure; else each has the time of an operation.
    if (elastic->world.world != nullptr) elastic->world.drain();
    const auto formed = elastic->elastic.form(state->state, last);
    if (!formed) return tl::unexpected(formed.error());
    elastic->world.world = *formed;
    elastic->world.groups.clear();  // of the last world
    elastic->world.group.world = &elastic->world;
    elastic->world.group.group = &(*formed)->group();
    elastic->world.group.generation = (*formed)->members().generation;
    *world = &elastic->world;
    return {};
  });
}

trc_status trc_elastic_finish(trc_elastic* elastic) {
  if (elastic == nullptr) return invalid("trc_elastic_finish of no membership");
  return guarded(elastic->world.group, [&] {
    elastic->world.drain();
    return elastic->elastic.finish();
  });
}

int trc_elastic_goes_on(trc_status status) { return trainrun::comm::can_go_on_after(status) ? 1 : 0; }
