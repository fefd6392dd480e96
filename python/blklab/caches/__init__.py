"""Block caches of this machine: dm-cache, bcache and dm-writecache."""
