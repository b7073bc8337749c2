"""Sketches of other systems, read and written: those of Apache Spark's own SQL functions."""

from sketches.interop.frequent_items import FrequentItems
from sketches.interop.spark_count_min import SparkCountMin

__all__ = ["FrequentItems", "SparkCountMin"]
