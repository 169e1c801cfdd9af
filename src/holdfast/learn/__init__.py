"""The trainers, in JAX: the agents of the paper and one that keeps its promise.

The world stays in NumPy, the very one that evaluation uses; JAX computes the gradients.
"""

import os

# One thread each: seeds are processes, equal seeds must give equal weights, and matrices this
# small gain nothing from a second core. JAX reads this when it is first imported.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
