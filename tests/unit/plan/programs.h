// Small programs that the tests of plans share.
#pragma once

namespace trek::plan::test {

// A network that is trained in a loop: matrix products with tails, a loss, gradients, optimizer steps.
inline constexpr const char* kTraining = R"(
.param  $lr f32 = 0.1
.input  @x f32[40,12]
.input  @y u8[40]
.state  @w1 f32[12,16] = normal(0, 0.3, key=1)
.state  @b1 f32[16] = 0
.state  @w2 f32[16,5] = normal(0, 0.3, key=2)
.state  @m f32[12,16] = 0
.state  @v f32[12,16] = 0
.output @last f32[]
.func main() {
  loop $i = 0 until 4 {
    $o  = mul $i, 10
    %xb = slice @x, at=[$o,0], size=[10,12]
    %t  = slice @y, at=[$o], size=[10]
    %n  = mul %xb, 0.5
    %a  = matmul %n, @w1, bias=@b1, tail=relu
    %z  = matmul %a, @w2
    %loss, %dz = cross_entropy.with_grad %z, %t, mean
    %g2 = matmul %a, %dz, ta
    %da = matmul %dz, @w2, tb
    %dh = relu.grad %da, %a
    %g1 = matmul %n, %dh, ta
    %gb = sum %dh, axis=0
    $s  = add $i, 1
    adam! @w1, @m, @v, %g1, lr=$lr, step=$s
    sgd! @b1, %gb, lr=$lr
    sgd! @w2, %g2, lr=$lr
    emit "loss", %loss
    @last = copy %loss
  }
}
)";

// Values that loops carry and swap, a branch, a while, calls, and a tensor read before it is written again.
inline constexpr const char* kControl = R"(
.state  @s f32[40] = uniform(0, 1, key=3)
.output @y f32[40]
.output @z f32[2,20]
.func half(%x f32[40], %to! f32[40]) -> (f32[40]) {
  %h = mul %x, 0.5
  %to = add %h, %x
  return %h
}
.func main() {
  %old = copy @s
  %p, %q, $n = loop $i = 0 until 5 carry %a = @s, %b = %old, $k = 0 {
    %c = add %a, %b
    $odd = mod $i, 2
    $is = eq $odd, 1
    %d = if $is {
      %e = exp %c
      %f = sum %e
      %g = sub %e, %f
      yield %g
    } else {
      yield %a
    }
    %h = call half(%d, @s)
    $next = add $k, $i
    yield %b, %h, $next
  }
  %w, $trips = while carry %u = %p, $m = 0 {
    %v = mul %u, 1.5
    $go = lt $m, 3
    test $go
    $more = add $m, 1
    yield %v, $more
  }
  %r = reshape %w, shape=[2,20]
  %sum = add %r, 1.0
  @z = add %sum, %sum
  @y = sub %q, %old
  emit "n", $n
}
)";

// Thin products that programs join: the gates of an LSTM, two steps a trip, and of a cell of three gates with rows of
// half words, weights by line and a bias for each column. ROWS, HIDDEN: how many.
inline constexpr const char* kCells = R"(
.const ROWS = {}
.const HIDDEN = {}
.state  @u f32[HIDDEN,HIDDEN] = normal(0, 0.3, key=1)
.state  @v f32[HIDDEN,HIDDEN] = normal(0, 0.3, key=2)
.state  @w f32[HIDDEN,HIDDEN] = normal(0, 0.3, key=3)
.state  @z f32[HIDDEN,HIDDEN] = normal(0, 0.3, key=4)
.state  @s f32[8 * ROWS,HIDDEN] = normal(0, 1, key=5)
.state  @h f32[ROWS,HIDDEN] = normal(0, 1, key=6)
.state  @a bf16[HIDDEN,HIDDEN] = normal(0, 0.3, key=7)
.state  @b bf16[HIDDEN,HIDDEN] = normal(0, 0.3, key=8)
.state  @d bf16[HIDDEN,HIDDEN] = normal(0, 0.3, key=9)
.state  @e bf16[HIDDEN] = normal(0, 1, key=10)
.output @y f32[8 * ROWS,HIDDEN]
.output @r bf16[ROWS,HIDDEN]
.output @g bf16[ROWS,HIDDEN]
.macro step H_AFTER, C_AFTER, H, C, T {{
  $first  = mul {{T}}, ROWS
  %from   = slice @s, at=[$first,0], size=[ROWS,HIDDEN]
  %in     = matmul {{H}}, @u, bias=%from, tail=sigmoid
  %forget = matmul {{H}}, @v, bias=%from, tail=sigmoid
  %cell   = matmul {{H}}, @w, tail=tanh
  %out    = matmul {{H}}, @z, bias=%from, tail=sigmoid
  %kept   = mul %forget, {{C}}
  {{C_AFTER}} = fma %in, %cell, %kept
  %seen   = tanh {{C_AFTER}}
  {{H_AFTER}} = mul %out, %seen
  update! @y, {{H_AFTER}}, at=[$first,0]
}}
.func main() {{
  %hl, %cl = loop $t = 0 until 8 step 2 carry %h = @h, %c = @h {{
    step %h1, %c1, %h, %c, $t
    $next = add $t, 1
    step %h2, %c2, %h1, %c1, $next
    yield %h2, %c2
  }}
  %x = cast %hl, to=bf16
  %f = matmul %x, @a, tb, bias=@e, tail=sigmoid
  %m = matmul %x, @b, tb, to=f32
  %n = matmul %x, @d, tb, to=bf16
  %k = mul %f, %n
  %l = cast %m, to=bf16
  %o = sub %l, @e
  @r = add %k, %o
  @g = copy %o
}}
)";

}  // namespace trek::plan::test
