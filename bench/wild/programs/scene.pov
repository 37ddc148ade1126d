#version 3.7;
global_settings { assumed_gamma 1 }
camera { location <0, 3, -9> look_at 0 }
light_source { <9, 9, -9> rgb 1 area_light x * 2, y * 2, 4, 4 }
plane { y, -1 pigment { checker rgb 1 rgb 0.2 } }
#for (i, 0, 40)
  sphere { <mod(i * 7, 11) - 5, mod(i, 3), mod(i * 5, 9) - 3>, 0.5 pigment { rgb <i / 40, 0.5, 1> } finish { reflection 0.3 } }
#end
