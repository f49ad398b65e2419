"""Operations on tiles with layouts as LLVM IR for one thread, by kind of operation."""
