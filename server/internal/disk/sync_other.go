//go:build !linux

package disk

// Sync makes the file durable, times included: there is no fdatasync here.
func (f osFile) Sync() error { return f.File.Sync() }
