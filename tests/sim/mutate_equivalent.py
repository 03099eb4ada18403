"""Mutants that change nothing that anybody could see, each with the reason: mutate.py does not draw them."""

# (file in launcher/core, the line, the line with its fault), blanks as they come: why it is the same
EQUIVALENT = {
}
