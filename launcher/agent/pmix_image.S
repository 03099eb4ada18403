# The stripped helper, as bytes in the read-only data of agent and launcher. TRAINRUN_PMIX_FILE comes from CMake.
    .section .rodata
    .global trainrun_pmix_image_begin
    .global trainrun_pmix_image_end
    .balign 64
trainrun_pmix_image_begin:
    .incbin TRAINRUN_PMIX_FILE
trainrun_pmix_image_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
