"""The shared vocabulary: actions, observations, detection, scenarios. No input or output."""
