package vfs

import "errors"

// ErrLocked says that another process holds the lock file.
var ErrLocked = errors.New("locked by another process")
