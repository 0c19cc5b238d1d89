"""What a breakpoint is and may become: pure values and functions, no I/O."""
