"""The dashboard: studies as pages in a browser and as JSON for instruments, over the same actions as the shell."""
