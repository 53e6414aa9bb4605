package disk

import "syscall"

// Sync is fdatasync: it makes data and size durable, and leaves the times of the file alone.
func (f osFile) Sync() error { return f.control("fdatasync", syscall.Fdatasync) }
