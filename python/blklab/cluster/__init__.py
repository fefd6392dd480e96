"""Computes many items at once: in threads of this process, or on the workers of a Dask cluster."""

from blklab.cluster.dask_cluster import DaskCluster, connected
from blklab.cluster.parallel import HERE, Parallel

__all__ = ["HERE", "DaskCluster", "Parallel", "connected"]
