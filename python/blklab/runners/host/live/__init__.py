"""`blklab tune --live`: settings that alternate at random under a load that is simply there."""
