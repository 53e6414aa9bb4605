package statemachine

// fifo is a queue in one contiguous slice that allocates nothing once it is as long as it gets: room
// freed in front is used again by moving the rest down, after enough was freed to pay for the move.
type fifo[T any] struct {
	buf  []T
	head int
}

func (f *fifo[T]) live() []T { return f.buf[f.head:] }
func (f *fifo[T]) len() int  { return len(f.buf) - f.head }

func (f *fifo[T]) push(v T) {
	if len(f.buf) == cap(f.buf) && f.head*8 >= len(f.buf) && f.head > 0 {
		n := copy(f.buf, f.live())
		clear(f.buf[n:])
		f.buf, f.head = f.buf[:n], 0
	}
	f.buf = append(f.buf, v)
}

// drop takes the first n away; what they pointed to is released.
func (f *fifo[T]) drop(n int) {
	clear(f.buf[f.head : f.head+n])
	f.head += n
	if f.head == len(f.buf) {
		f.buf, f.head = f.buf[:0], 0
	}
}

// trim gives back room that is not used.
func (f *fifo[T]) trim() {
	if cap(f.buf) > 2*f.len() {
		*f = fifo[T]{buf: append([]T(nil), f.live()...)}
	}
}

// insert puts v before the i-th; it is for the rare case of numbers out of order.
func (f *fifo[T]) insert(i int, v T) {
	f.push(v)
	q := f.live()
	copy(q[i+1:], q[i:])
	q[i] = v
}
