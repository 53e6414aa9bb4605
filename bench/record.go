package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
)

const (
	collectorDigits = 4
	numberDigits    = 12
	headerSize      = collectorDigits + 1 + numberDigits + 1
	smallestRecord  = headerSize + 8
)

// A Batch is consecutive records of one collector.
type Batch struct {
	First   uint64   // number of the first record; they begin with 1
	Records [][]byte // without a line ending
	Text    []byte   // the same records, each with a line feed behind it
}

// newBatch makes room for n records of one size. Each is the collector's index, the record's number, and a filling that
// is the same in all: letters and digits, so that no peer has to escape anything.
func newBatch(collector, n, size int) *Batch {
	b := &Batch{Text: make([]byte, 0, n*(size+1))}
	filling := fillingOf(size)
	for range n {
		start := len(b.Text)
		b.Text = fmt.Appendf(b.Text, "%0*d %0*d %s\n", collectorDigits, collector, numberDigits, 0, filling)
		b.Records = append(b.Records, b.Text[start:len(b.Text)-1])
	}
	return b
}

func fillingOf(size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	random := rand.New(rand.NewPCG(1, 2)) // always the same filling: it is recognised when it is read back
	filling := make([]byte, size-headerSize)
	for i := range filling {
		filling[i] = letters[random.IntN(len(letters))]
	}
	return filling
}

// number writes the numbers from first on into the records.
func (b *Batch) number(first uint64) {
	b.First = first
	for i, record := range b.Records {
		n := first + uint64(i)
		for at := collectorDigits + numberDigits; at > collectorDigits; at-- {
			record[at] = byte('0' + n%10)
			n /= 10
		}
	}
}

// A Tally counts how often each record was found.
type Tally struct {
	Damaged uint64 // what is no record of this run
	filling []byte
	found   [][]uint8 // of each collector: how often number i+1 was found
}

func newTally(collectors, size int) *Tally {
	return &Tally{filling: fillingOf(size), found: make([][]uint8, collectors)}
}

// add counts one record.
func (t *Tally) add(record []byte) {
	if len(record) != headerSize+len(t.filling) || !bytes.Equal(record[headerSize:], t.filling) {
		t.Damaged++
		return
	}
	collector, err := strconv.Atoi(string(record[:collectorDigits]))
	n, err2 := strconv.Atoi(string(record[collectorDigits+1 : headerSize-1]))
	if err != nil || err2 != nil || collector >= len(t.found) || n < 1 {
		t.Damaged++
		return
	}
	list := t.found[collector]
	for len(list) < n {
		list = append(list, 0)
	}
	if list[n-1] < 255 {
		list[n-1]++
	}
	t.found[collector] = list
}

// sums compares with how many records of each collector were acknowledged: those from number 1 on.
func (t *Tally) sums(acknowledged []uint64) (found, lost, twice uint64) {
	for i, list := range t.found {
		for n := uint64(0); n < max(acknowledged[i], uint64(len(list))); n++ {
			switch there := n < uint64(len(list)) && list[n] > 0; {
			case there && list[n] > 1:
				found, twice = found+1, twice+1
			case there:
				found++
			case n < acknowledged[i]:
				lost++
			}
		}
	}
	return found, lost, twice
}
