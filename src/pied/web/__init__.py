"""The dashboard: studies as pages, as JSON for instruments and as tools of assistants, over the shell's actions."""
