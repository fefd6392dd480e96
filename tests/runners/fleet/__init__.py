"""The runner `fleet`, on hosts that are network namespaces with a real sshd."""
