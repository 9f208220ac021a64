"""What a model sees of a point: its coordinates, maybe on a logarithmic axis, the place on a wave, labels as inputs."""
