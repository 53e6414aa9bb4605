// Package storetest is the contract of package store as tests. [Run] takes a store through all of it;
// [Checks] are the same as functions, for other ways to run them.
//
// The rule of the package: a check looks only at what a store returns, so it fits every store.
package storetest
