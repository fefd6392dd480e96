//! Address mapping: where an array's sectors lie on its members, exactly as the kernel has it.
