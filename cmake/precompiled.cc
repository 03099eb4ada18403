// Empty: what is compiled here are the precompiled headers (trainrun.cmake).
