"""The engine on Apache Spark: the only place that talks to it."""
