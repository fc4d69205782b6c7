# What its owner locked comes back all the same: files, folders, and under umask 077.
# expect: ok
# files: a.txt locked/b.txt listed/c.txt private/d.txt nested/deep/e.txt
umask 077
mkdir locked listed private nested nested/deep
echo a > a.txt; echo b > locked/b.txt; echo c > listed/c.txt
echo d > private/d.txt; echo e > nested/deep/e.txt
chmod 000 a.txt locked nested/deep nested
chmod 400 listed
