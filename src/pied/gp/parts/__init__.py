"""Where the box is in parts, each with a border: settings that fail, values cut off at a plateau, other regimes."""
