// Package disktest is a disk in memory for tests: [Disk] lets any single call fail ([Disk.Hook]), and
// [Disk.PowerCut] loses what was not synced, in whole or in part.
//
// The rule of the package: it is as unkind as a real disk may be. Of what was not synced any sector
// may have been written and any other not, in any order; a name that was not synced may be the old
// one; only what a Sync or SyncDir returned for is sure.
package disktest
