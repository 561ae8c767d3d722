/* The way to main(), and the two functions that measure: they leave no trace on the stack, so all they see is others'. */
#define PAINT 0xA5A5A5A5
#define FAULT 255 /* an exit status; edge/emulator.py */

#if __arm__

    .macro time register /* emulator.c says how the clock runs */
#if COUNTER_SSE_COUNTER
    ldr \register, =0x58100008
    ldr \register, [\register]
#else
    ldr \register, =0x40000004
    ldr \register, [\register]
    mvn \register, \register
#endif
    .endm

    .syntax unified
    .thumb
    .section .vectors, "a"
    .word emulator_stack_top, emulator_start
    .rept 14
    .word emulator_fault
    .endr

    .text
    .global emulator_start, emulator_fault, emulator_semihost, emulator_begin, emulator_end
    .thumb_func
emulator_start:
    ldr r0, =0xE000ED88 /* CPACR: the FPU may be used */
    ldr r1, [r0]
    orr r1, r1, #0xF00000
    str r1, [r0]
    dsb
    isb
    bl emulator_prepare
    bl main
    b emulator_exit

    .thumb_func
emulator_fault: /* also where the stack has left memory */
    ldr sp, =emulator_stack_top
    mov r0, FAULT
    b emulator_exit

    .thumb_func
emulator_semihost: /* (operation, arguments) -> result */
    bkpt 0xAB
    bx lr

    .thumb_func
emulator_begin: /* () paints below the caller's stack, also over its own use of it, and takes the time */
    mov r0, sp
    push {r4, lr}
    bl emulator_began
    pop {r4, lr}
    ldr r1, =emulator_stack
    ldr r2, =PAINT
1:  str r2, [r1], #4
    cmp r1, sp
    blo 1b
    ldr r0, =emulator_time
    time r1
    str r1, [r0]
    bx lr

    .thumb_func
emulator_end: /* (name) ends as emulator_ended(name, time, deepest use of the stack) */
    time r1
    ldr r2, =emulator_stack - 4
    ldr r3, =PAINT
1:  ldr ip, [r2, #4]!
    cmp ip, r3
    beq 1b
    b emulator_ended

#elif __riscv

    .section .vectors, "ax"
    .global emulator_start, emulator_fault, emulator_semihost, emulator_begin, emulator_end
    .option norelax
emulator_start:
    la gp, __global_pointer$
    la sp, emulator_stack_top
    la t0, emulator_fault
    csrw mtvec, t0
    li t0, 0x2000 /* mstatus.FS: the FPU may be used */
    csrs mstatus, t0
    la t0, emulator_stack /* below the stack, from 4 MB after the code's beginning, is memory without access */
    srli t0, t0, 2
    csrw pmpaddr1, t0
    la t0, emulator_start + 0x400000
    srli t0, t0, 2
    csrw pmpaddr0, t0
    li t0, 0x8800
    csrw pmpcfg0, t0
    call emulator_prepare
    call main
    j emulator_exit

    .balign 4
emulator_fault: /* also where the stack has left memory */
    la sp, emulator_stack_top
    li a0, FAULT
    j emulator_exit

    .option norvc
    .balign 16 /* the three may not lie across a page */
emulator_semihost: /* (operation, arguments) -> result */
    slli x0, x0, 0x1f
    ebreak
    srai x0, x0, 7
    ret

    .text
emulator_begin: /* () paints below the caller's stack, also over its own use of it, and takes the time */
    mv a0, sp
    addi sp, sp, -16
    sw ra, 0(sp)
    call emulator_began
    lw ra, 0(sp)
    addi sp, sp, 16
    la a1, emulator_stack
    li a2, PAINT
1:  sw a2, 0(a1)
    addi a1, a1, 4
    bltu a1, sp, 1b
    la a0, emulator_time
    csrr a1, minstret
    sw a1, 0(a0)
    ret

emulator_end: /* (name) ends as emulator_ended(name, time, deepest use of the stack) */
    csrr a1, minstret
    la a2, emulator_stack - 4
    li a3, PAINT
1:  addi a2, a2, 4
    lw a4, 0(a2)
    beq a4, a3, 1b
    j emulator_ended

#endif
