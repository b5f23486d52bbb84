package changelog

import "time"

// Left is how much of the lease is left.
func (k *Keeper) Left() time.Duration { return k.left() }
