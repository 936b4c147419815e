# cmake -DINPUT=file -DOUTPUT=file.inc -P embed.cmake: the bytes of a file, and a final 0, as the text of
# an array initialiser.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "${bytes}0\n")
