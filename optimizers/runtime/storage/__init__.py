"""The storage that a checkpoint lies on: local disks, object stores, HDFS.

A place is read from what people write (`places`), opened as a disk (`opening`), and guarded by a
fence where the disk itself cannot refuse a name that is taken (`fence`).
"""
