"""How a job runs, on any engine: stages of tasks on Arrow batches, state and its log.

Pure except for files: `optimizers.spark` makes Spark jobs of it, tests run it in one process.
"""
