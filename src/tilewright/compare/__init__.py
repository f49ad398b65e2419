"""`tilewright compare`: a user's program under Triton, its kernels replayed under both compilers.

`session` (the parent process) starts `worker`, which runs the program with Triton, records launches (`record`,
`snapshot`), makes tilewright's kernel of each (`translate`) and replays it (`replay`, `agreement`, `timing`).
`report` shows the rows. A worker that a kernel kills is started again without that kernel.
"""
