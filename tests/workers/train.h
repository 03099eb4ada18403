// Verbs of `worker` that behave like a training script with a checkpoint: what jobs of many generations run.
#pragma once

#include <string>
#include <vector>

// train FOLDER STEPS MS: takes the step from FOLDER/checkpoint, then steps of MS milliseconds each, all ranks
// in lockstep as by a collective: when a peer is gone or stopped, the others wait for ever. Rank 0 writes the
// checkpoint after each step. Ends with 0 after STEPS steps, or earlier when FOLDER/finish is there.
// Each start adds a line of JSON to FOLDER/starts. All hosts must see FOLDER, and share one kernel.
int train(const std::vector<std::string>& words);

// heir FOLDER: leaves a daemon in a session of its own, deaf to TERM. Rank 0 of generation 1 then fails with
// 3; a rank of a later one ends with 41 when a daemon of an earlier one is still there, else with 0.
int heir(const std::vector<std::string>& words);
