// The agent as a program of its own: static, embedded in trainrun, carried to hosts by the transports.
#include "launcher/agent/agent_main.h"

int main(int argc, char** argv) { return trainrun::agent::agent_main({argv + 1, argv + argc}); }
