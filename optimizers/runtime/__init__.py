"""How a job runs, without saying where: stages of tasks on Arrow batches, state and its log.

Pure but for files: `optimizers.spark` makes Spark jobs out of it, tests run it in one process.
"""
